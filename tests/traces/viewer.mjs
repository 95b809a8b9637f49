// Pages of traces in a real browser.
// node viewer.mjs NPM PAGES [PICTURES]: NPM is a folder in which `npm install puppeteer-core axe-core` has run, PAGES one with the pages that
// `browser.rs` makes, and PICTURES a folder for screenshots. Without a browser it says so and passes.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [npm, pages, pictures] = process.argv.slice(2);
const chromium = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'].find((it) => it && existsSync(it));
if (!chromium || !existsSync(join(npm, 'node_modules/puppeteer-core')) || !existsSync(join(npm, 'node_modules/axe-core'))) {
  console.log(`skipped: ${chromium ? 'puppeteer-core or axe-core is not in ' + npm : 'there is no Chromium'}`);
  process.exit(0);
}
const require = createRequire(join(npm, 'node_modules/x.js'));
const puppeteer = (await import(require.resolve('puppeteer-core'))).default;
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
if (pictures) mkdirSync(pictures, { recursive: true });

const browser = await puppeteer.launch({ executablePath: chromium, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'], protocolTimeout: 120000 });
const faults = [];
async function open(name, { width = 1200, height = 800, dark = false, hash = '', address = pathToFileURL(join(pages, `${name}.html`)) } = {}) {
  const page = await browser.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }]);
  page.on('pageerror', (error) => faults.push(`${name}: ${error}`));
  page.on('console', (said) => { if (['error', 'warn'].includes(said.type())) faults.push(`${name}: ${said.text()}`); });
  page.on('dialog', (dialog) => { faults.push(`${name}: a script has run: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', (request) => { if (request.url().split('#')[0] !== String(address)) faults.push(`${name}: asks for ${request.url()}`); });
  await page.goto(address + hash);
  await drawn(page);
  return page;
}
const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const text = (page, selector) => page.$eval(selector, (it) => it.innerText);
async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
  await drawn(page);
}
/** The row that has the focus: the words of its line. */
const focused = (page) => page.evaluate(() => document.activeElement.closest('summary')?.innerText.replace(/\s+/g, ' ') ?? document.activeElement.tagName);
async function check(page, name) {
  // The page runs no script but its own, so this one comes from the debugger.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const serious = violations.filter((it) => ['serious', 'critical'].includes(it.impact));
  assert.deepEqual(serious.map((it) => [it.id, it.nodes.slice(0, 3).map((node) => node.html)]), [], name);
}
async function fits(page, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${name}: ${wide} pixels too wide`);
}
async function picture(page, name, more = {}) {
  if (pictures) await page.screenshot({ path: join(pictures, name + '.png'), ...more });
}
const isOpen = (page, words) => page.$$eval('details.row', (all, words) => all.find((it) => it.querySelector('summary').innerText.includes(words)).open, words);

const steps = {
  async 'a failure is red and one key away'() {
    const page = await open('story');
    assert.match(await text(page, '#sum'), /\d+ runs · \d+ turns · \d+ calls · 3 failures/);
    const seen = [];
    for (let at = 0; at < 3; at += 1) {
      await press(page, 'f');
      seen.push(await focused(page));
      assert.match(await text(page, '#found'), new RegExp(`Failure ${at + 1} of 3`));
    }
    assert.match(seen[0], /weather failed .*no such city/);
    // Two failed inside of an agent, whose call is folded at first.
    for (const it of seen.slice(1)) assert.match(it, /fetch failed .*page 1 is not there/);
    await press(page, 'f');
    assert.equal(await focused(page), seen[0], 'and from the beginning');
    await press(page, 'F');
    assert.equal(await focused(page), seen[2], 'and back');
    const [red, green, blue] = await page.$eval('.failed > summary b', (it) => getComputedStyle(it).color.match(/\d+/g).map(Number));
    assert.ok(red > 150 && red > 2 * Math.max(green, blue), `${red} ${green} ${blue}`);
    await page.locator('#failure').click();
    await drawn(page);
    assert.equal(await focused(page), seen[0]);
    await page.close();
    const none = await open('none');
    await press(none, 'f');
    assert.match(await text(none, '#found'), /Nothing failed/);
    await none.close();
  },
  async 'a row opens to everything of it, by keyboard'() {
    const page = await open('story');
    await press(page, 'j');
    assert.match(await focused(page), /user .*What can I still return\?/);
    await press(page, 'j');
    assert.match(await focused(page), /turn 1/);
    await press(page, 'Enter');
    const turn = await text(page, 'details.turn[open] .body');
    for (const words of ['Prompt: user', 'What can I still return?', 'Thinking', 'The orders first', 'Answer', 'Let me look.', 'tokens: input', '820', 'tokens: output', '64', 'of the request: history']) {
      assert.ok(turn.includes(words), `${words}: ${turn}`);
    }
    await press(page, 'Enter');
    assert.equal(await isOpen(page, 'turn 1'), false);
    await press(page, 'j');
    assert.match(await focused(page), /search_orders/);
    await press(page, 'Enter');
    const call = await text(page, 'details.call[open] .body');
    assert.match(call, /Arguments\s+Copy\s+\{\n  "email": "a@b.com",\n  "city": "Oslo",\n  "limit": 10\n\}/);
    assert.match(call, /"total": 49\.0,/, 'a number as it is written');
    assert.match(call, /Recorded: \d+ events/);
    await press(page, 'k');
    assert.match(await focused(page), /turn 1/);
    // The prompt of the second turn is what the calls have given.
    await press(page, 'o');
    const all = await page.$eval('main', (it) => it.textContent);
    assert.match(all, /Prompt: result of weather/);
    assert.match(all, /decided byperson: ada/);
    await press(page, 'o');
    assert.equal((await page.$$('details.row[open]')).length, 0);
    await press(page, '?');
    assert.match(await text(page, '#help'), /next, previous failure/);
    await page.close();
  },
  async 'a text can be copied as it is recorded'() {
    const page = await open('story');
    await press(page, 'j', 'j', 'j', 'Enter');
    await page.evaluate(() => { navigator.clipboard.writeText = async (text) => { window.kept = text; }; });
    await page.locator('details.call[open] .copy').click();
    await drawn(page);

    assert.deepEqual(JSON.parse(await page.evaluate(() => window.kept)), { email: 'a@b.com', city: 'Oslo', limit: 10 });
    assert.ok(!(await page.evaluate(() => window.kept)).includes('\n'), 'not in the pretty form');
    assert.match(await text(page, '#found'), /Copied/);
    // Where a page may not use the clipboard, the older way is taken.
    await page.evaluate(() => { navigator.clipboard.writeText = async () => { throw new Error('no'); }; document.execCommand = (name) => { window.kept = [name, document.activeElement.value]; return true; }; });
    await page.locator('details.call[open] .copy').click();
    await drawn(page);
    assert.equal((await page.evaluate(() => window.kept))[0], 'copy');
    await page.close();
  },
  async 'search finds what is recorded, also in what is folded'() {
    const page = await open('story');
    const shown = () => page.$$eval('details.row', (all) => all.filter((it) => it.checkVisibility()).length);
    const before = await shown();
    await press(page, '/');
    await page.keyboard.type('page 1 IS NOT');
    await drawn(page);
    assert.match(await text(page, '#found'), /^2 rows found/);
    assert.ok(await shown() < before);
    await press(page, 'Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'search', 'typing goes on');
    assert.ok(await page.evaluate(() => [...document.querySelectorAll('.run .run details.row[open]')].some((it) => it.innerText.includes('page 1 is not there'))));
    assert.ok(await page.evaluate(() => CSS.highlights.get('found').size) > 0);
    await press(page, 'Escape');
    assert.equal(await page.$eval('#search', (it) => it.value), '');
    assert.ok(await shown() >= before);
    // What the user said, numbers, and how a run ended.
    for (const [words, found] of [['can i still RETURN', /^1 row /], ['1410', /^[1-9]\d* rows? /], ['the model answered', /^[1-9]\d* rows? /]]) {
      await press(page, '/');
      await page.keyboard.type(words);
      await drawn(page);
      assert.match(await text(page, '#found'), found, words);
      await press(page, 'Escape');
    }
    await press(page, '/');
    await page.keyboard.type('nobody has said this');
    await drawn(page);
    assert.match(await text(page, '#found'), /^0 rows/);
    await page.close();
  },
  async 'each row has a link'() {
    const page = await open('story');
    await press(page, 'f', 'f');
    const [hash, row] = [await page.evaluate(() => location.hash), await focused(page)];
    assert.match(hash, /^#a\d+$/);
    await page.close();
    const again = await open('story', { hash });
    assert.equal(await focused(again), row, 'also inside of an agent');
    const ids = await again.$$eval('[id]', (all) => all.map((it) => it.id));
    assert.equal(new Set(ids).size, ids.length);
    const link = await again.$eval(`[id="${hash.slice(1)}"] .link a`, (it) => it.getAttribute('href'));
    assert.equal(link, hash);
    await again.close();
    const nowhere = await open('story', { hash: '#%00<script>' });
    await nowhere.close();
  },
  async 'a service can send the page without an origin'() {
    const server = createServer((request, response) => {
      response.setHeader('content-security-policy', 'sandbox allow-scripts');
      response.setHeader('content-type', 'text/html; charset=utf-8');
      response.end(readFileSync(join(pages, 'story.html')));
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const page = await open('story', { address: `http://127.0.0.1:${server.address().port}/trace` });
    await press(page, 'f', 'f');
    assert.match(await focused(page), /fetch failed/);
    assert.equal(await page.evaluate(() => origin), 'null');
    await page.locator('details.call[open] .copy').click();
    await page.waitForFunction(() => document.querySelector('#found').innerText === 'Copied.');
    await page.close();
    server.close();
  },
  async 'agents fold, and waits have bars'() {
    const page = await open('story');
    assert.equal(await isOpen(page, 'reader'), false);
    assert.equal((await page.$$('.run .run')).length, 0);
    const call = await page.evaluateHandle(() => [...document.querySelectorAll('details.call')].find((it) => it.innerText.includes('reader')));
    await call.evaluate((it) => it.querySelector('summary').click());
    await page.waitForSelector('.run .run');
    assert.match(await text(page, '.run .run'), /What is the policy on returns\?/);
    assert.match(await text(page, '.run .run'), /The policy allows returns/);
    const waits = await page.$$eval('details.call', (all) => all.filter((it) => it.querySelector('.bar.wait')).map((it) => it.querySelector('.name').innerText));
    assert.ok(waits.includes('refund'), String(waits));
    assert.match(await text(page, 'main'), /waits for an approval/);
    await page.close();
    const past = await open('journal');
    const refund = await past.$$eval('details.call', (all) => {
      const of = all.find((it) => it.querySelector('.name').innerText === 'refund');
      return [...of.querySelectorAll('.bar')].map((it) => [it.className, it.getBoundingClientRect().width]);
    });
    assert.deepEqual(refund.map(([name]) => name), ['bar wait', 'bar call']);
    assert.ok(refund[0][1] > 5 * refund[1][1], String(refund));
    await past.close();
    // A call that asked a question and was called again with the answer.
    const again = await open('again');
    const bars = await again.$$eval('details.call .bar', (all) => all.map((it) => it.className));
    assert.deepEqual(bars, ['bar call', 'bar wait', 'bar call']);
    await again.close();
  },
  async 'hostile words run nothing and stay words'() {
    const page = await open('hostile');
    await press(page, 'o');
    await page.$$eval('.raw > summary', (all) => all.forEach((it) => it.click()));
    await press(page, '/');
    await page.keyboard.type('alert');
    await press(page, 'Enter', 'Enter');
    const found = await page.$$eval('main :is(script, img, svg, iframe, form, style, object, embed, math)', (all) => all.map((it) => it.outerHTML));
    assert.deepEqual(found, []);
    const links = await page.$$eval('a', (all) => all.map((it) => it.getAttribute('href')));
    assert.ok(links.length > 20 && links.every((it) => it.startsWith('#')), String(links.slice(0, 5)));
    const words = await page.$eval('main', (it) => it.textContent);
    for (const said of ['</script><script>alert(1)</script>', '<!--<script>alert(2)', '{data}{script}{style-hash}${alert(6)}', '"><svg onload=alert(4)>']) {
      assert.ok(words.includes(said), said);
    }
    await check(page, 'hostile');
    // And if a script came into the page, it would not run.
    const blocked = faults.length;
    await page.evaluate(() => { const it = document.createElement('script'); it.textContent = 'window.ran = true'; document.body.append(it); document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.ran = true"><p onclick="window.ran = true" id=pressed>'); document.getElementById('pressed').click(); });
    await drawn(page);
    assert.equal(await page.evaluate(() => window.ran), undefined);
    assert.ok(faults.length > blocked, 'the browser says so');
    faults.length = blocked;
    await page.close();
  },
  async 'an axis that is as long as time has an end'() {
    const page = await open('times');
    await press(page, 'o');
    const axes = await page.$$eval('.axis', (all) => all.map((it) => it.childElementCount));
    assert.ok(axes.length === 4 && axes.every((ticks) => ticks > 0 && ticks <= 12), String(axes));
    const bars = await page.$$eval('.bar', (all) => all.flatMap((it) => [it.style.left, it.style.width]));
    assert.ok(bars.every((it) => it === '' || /^[\d.e-]+%$/.test(it)), String(bars));
    await fits(page, 'times');
    await page.close();
  },
  async 'five thousand calls scroll smoothly'() {
    // The median time of a frame while the page scrolls by some rows each time.
    const frames = async (page) => (await page.bringToFront(), page.evaluate(async () => {
      const took = [];
      const whole = document.documentElement.scrollHeight;
      for (let at = 0; at < 60; at += 1) {
        scrollTo(0, whole / 4 + ((at * 100) % (whole / 2)));
        const begun = performance.now();
        await new Promise((done) => requestAnimationFrame(() => { const port = new MessageChannel(); port.port1.onmessage = done; port.port2.postMessage(0); }));
        took.push(performance.now() - begun);
      }
      return took.sort((one, other) => one - other)[30];
    }));
    const few = await open('few'), many = await open('many');
    assert.equal((await many.$$('details.call')).length, 5000);
    const [small, large] = [await frames(few), await frames(many)];
    console.log(`a frame: ${small.toFixed(1)} ms with 50 calls, ${large.toFixed(1)} ms with 5,000`);
    assert.ok(large < 3 * Math.max(small, 16), `${small} ${large}`);
    const laid = await many.$$eval('details.row > summary', (all) => all.filter((it) => it.checkVisibility({ contentVisibilityAuto: true })).length);
    assert.ok(laid < 500, `${laid} rows are laid out`);
    const nodes = await many.evaluate(() => document.querySelectorAll('*').length);
    assert.ok(nodes < 5500 * 12, `${nodes} elements`);
    // What is opened far away is filled when it comes near.
    await press(many, 'o');
    const filled = await many.evaluate(() => document.querySelectorAll('.body').length);
    assert.ok(filled < 1000, `${filled} rows are filled`);
    await press(many, 'o');
    for (const at of [1, 2, 3, 4, 5]) {
      await press(many, 'f');
      assert.match(await focused(many), /look failed/);
      const top = await many.evaluate(() => document.activeElement.getBoundingClientRect().top);
      assert.ok(top > 0 && top < 800, `failure ${at} is at ${top}`);
    }
    await press(many, '/');
    await many.keyboard.type('c4321"');
    await press(many, 'Enter');
    assert.match(await text(many, '#found'), /row/);
    await picture(many, 'many-wide-light');
    await few.close();
    await many.close();
  },
  async 'two traces, and the first fact that differs'() {
    for (const [width, height] of [[1200, 900], [360, 740]]) {
      const page = await open('compared', { width, height });
      const panel = await text(page, '#difference');
      assert.match(panel, /oslo\.jsonl/);
      const marked = await page.$$eval('#difference mark', (all) => all.map((it) => it.textContent.trim()));
      assert.ok(marked.some((it) => it.includes('Oslo')) && marked.some((it) => it.includes('Bergen')), String(marked));
      const rows = await page.$$eval('details.differs', (all) => all.map((it) => {
        const box = it.getBoundingClientRect(), side = it.closest('.side').getBoundingClientRect();
        return [it.id[0], it.querySelector('summary').textContent, box.top >= side.top && box.bottom <= side.bottom + 1];
      }));
      assert.deepEqual(rows.map(([side]) => side), ['a', 'b']);
      assert.ok(rows.every(([, words, isSeen]) => /differs/.test(words) && isSeen), JSON.stringify(rows));
      assert.equal(await page.evaluate(() => scrollY), 0, 'the fact itself is in view');
      await press(page, 'd');
      assert.match(await focused(page), /differs/);
      await fits(page, `compared ${width}`);
      await check(page, `compared ${width}`);
      await picture(page, `compared-${width}-light`);
      await page.close();
    }
    const dark = await open('compared', { dark: true });
    await check(dark, 'compared, dark');
    await picture(dark, 'compared-1200-dark');
    await dark.close();
    const same = await open('same');
    assert.match(await text(same, 'main'), /The facts of both traces are the same/);
    assert.equal((await same.$$('.differs')).length, 0);
    await same.close();
  },
  async 'narrow, dark and accessible'() {
    for (const [width, height] of [[1200, 800], [360, 740]]) {
      for (const dark of [false, true]) {
        const name = `${width}-${dark ? 'dark' : 'light'}`;
        const page = await open('story', { width, height, dark });
        await fits(page, name);
        await check(page, name);
        await picture(page, `story-${name}`);
        await press(page, 'f', 'f', '?');
        await fits(page, `${name}, opened`);
        await check(page, `${name}, opened`);
        await picture(page, `opened-${name}`, { fullPage: true });
        await page.close();
      }
    }
    const page = await open('hostile', { width: 360, height: 740 });
    await press(page, 'o');
    await fits(page, 'hostile');
    await page.close();
  },
  async 'printed, everything is open'() {
    const page = await open('story', { width: 800 });
    const pdf = await page.pdf({ format: 'A4', printBackground: true });
    assert.ok(pdf.length > 10000);
    assert.equal((await page.$$('details.row[open]')).length, 0, 'and closed again');
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    await page.emulateMediaType('print');
    const printed = await text(page, 'main');
    for (const words of ['page 1 is not there', '"total": 49.0', 'The orders first', 'person: ada']) assert.ok(printed.includes(words), words);
    assert.ok(!/Copy|Link to this row/.test(printed));
    assert.equal(await page.$eval('#tools', (it) => it.checkVisibility()), false);
    await picture(page, 'printed', { fullPage: true });
    await page.close();
  },
};
let code = 0;
try {
  for (const [name, step] of Object.entries(steps)) {
    if (process.env.STEP && !name.includes(process.env.STEP)) continue;
    await step();
    assert.deepEqual(faults, [], name);
    console.log(`ok: ${name}`);
  }
} catch (error) {
  console.log(error.stack);
  code = 1;
} finally {
  await browser.close();
}
process.exit(code);
