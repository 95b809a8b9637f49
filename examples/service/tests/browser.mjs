// The page in a real browser, against the service as a process.
// node browser.mjs NPM SERVICE [PICTURES]: NPM is a folder in which `npm install puppeteer-core axe-core` has run, SERVICE the program, and
// PICTURES a folder for screenshots. Without a browser it says so and passes. With `npm install ai @ai-sdk/react react react-dom esbuild`
// in NPM, a page with `useChat` (react.jsx) is tested, too.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [npm, program, pictures] = process.argv.slice(2);
const chromium = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'].find((it) => it && existsSync(it));
if (!chromium || !existsSync(join(npm, 'node_modules/puppeteer-core')) || !existsSync(join(npm, 'node_modules/axe-core'))) {
  console.log(`skipped: ${chromium ? 'puppeteer-core or axe-core is not in ' + npm : 'there is no Chromium'}`);
  process.exit(0);
}
const require = createRequire(join(npm, 'node_modules/x.js'));
const puppeteer = (await import(require.resolve('puppeteer-core'))).default;
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const folder = mkdtempSync(join(tmpdir(), 'service-'));
let server, address = '127.0.0.1:0';
async function start(env = {}) {
  const args = ['--listen', address, '--journal', join(folder, 'chats.sqlite'), '--trace', join(folder, 'trace.jsonl')];
  server = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env } });
  for await (const lines of server.stdout) {
    const found = /http:\/\/(\S+)/.exec(String(lines));
    if (found) { address = found[1]; break; }
  }
}
const ended = () => new Promise((done) => (server.exitCode !== null || server.signalCode ? done() : server.once('exit', done)));
async function kill() { server.kill('SIGKILL'); await ended(); }

await start();
const browser = await puppeteer.launch({ executablePath: chromium, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'], protocolTimeout: 60000 });
const faults = [];
async function tab(id, { width = 1200, height = 800, dark = false } = {}) {
  const page = await browser.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }]);
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('dialog', (dialog) => { faults.push('a script has run: ' + dialog.message()); dialog.dismiss(); });
  await page.goto(`http://${address}/#${id}`);
  return page;
}
async function text(page, selector = '#log') {
  await page.bringToFront();
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  return page.$eval(selector, (it) => it.innerText);
}
async function until(page, what, of = '#log') {
  // A tab in the background is drawn later.
  await page.bringToFront();
  const has = (selector, source, flags) => new RegExp(source, flags).test(document.querySelector(selector)?.innerText ?? '');
  try {
    await page.waitForFunction(has, { timeout: 30000, polling: 50 }, of, what.source, what.flags);
  } catch { assert.fail(`${what} does not come: ${await text(page)}\n${await text(page, '#composer').catch(() => '')}\n${faults}`); }
}
async function say(page, words) {
  await page.focus('#words');
  await page.keyboard.type(words);
  await page.keyboard.press('Enter');
}
async function check(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const serious = violations.filter((it) => ['serious', 'critical'].includes(it.impact));
  assert.deepEqual(serious.map((it) => [it.id, it.nodes.map((node) => node.html)]), [], name);
}
async function picture(page, name) {
  if (pictures) await page.screenshot({ path: join(pictures, name + '.png') });
}
// ---- The page with `useChat`

const installed = (name) => existsSync(join(npm, 'node_modules', name, 'package.json'));
const lacks = ['ai', '@ai-sdk/react', 'react', 'react-dom', 'esbuild'].filter((name) => !installed(name));
let bundle;
async function reactTab(id) {
  if (!bundle) {
    const source = new URL('react.jsx', import.meta.url).pathname;
    const { build } = require('esbuild');
    const define = { 'process.env.NODE_ENV': '"production"' };
    const options = { entryPoints: [source], bundle: true, format: 'esm', jsx: 'automatic', nodePaths: [join(npm, 'node_modules')], write: false, define };
    bundle = (await build(options)).outputFiles[0].text;
    const [, glue] = readFileSync(source, 'utf8').split(/\/\/ glue (?:begins|ends)\n/);
    const lines = glue.split('\n').filter((line) => line.trim() && !line.trim().startsWith('//')).length;
    console.log(`useChat: ${lines} lines of glue, with ai ${require(join(npm, 'node_modules/ai/package.json')).version}`);
    assert.ok(lines <= 30, `${lines} lines of glue`);
  }
  const page = await browser.newPage();
  page.on('pageerror', (error) => faults.push(String(error)));
  await page.setRequestInterception(true);
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (pathname === '/react.html') request.respond({ contentType: 'text/html', body: '<!doctype html><title>useChat</title><body><script type="module" src="/react.js"></script>' });
    else if (pathname === '/react.js') request.respond({ contentType: 'text/javascript', body: bundle });
    else request.continue();
  });
  await page.goto(`http://${address}/react.html#${id}`);
  await page.waitForSelector('#words');
  return page;
}

const count = (textOf, what) => textOf.split(what).length - 1;
async function idle(page) {
  await page.bringToFront();
  await page.waitForFunction(() => document.querySelector('#stop').hidden, { timeout: 30000 });
}

const steps = {
  async 'a question with a tool'() {
    const page = await tab('a');
    await say(page, 'What is the weather in Oslo?');
    await until(page, /I have it\. Oslo: 7 degrees, rain/);
    await until(page, /weather done/);
    await until(page, /tokens in/);
    await until(page, /weather in Oslo/, '#list');
    assert.match(await text(page, '#sum'), /tokens · \$/);
    assert.match(await page.$eval('#spoken', (it) => it.textContent), /Oslo/);
    await check(page, 'an answer');
    const trace = await (await fetch(await page.$eval('#trace', (it) => it.href))).text();
    assert.match(trace, /weather/);
    await page.close();
  },
  async 'a reload in the middle, a second tab, and stop'() {
    const page = await tab('b');
    await say(page, 'count to 40');
    await until(page, /1 2 3 4/);
    await page.reload();
    const other = await tab('b', { width: 360, height: 700 });
    await until(page, /1 2 3 4 5 6 7 8/);
    await until(other, /1 2 3 4 5 6 7 8 9 10/);
    for (const it of [page, other]) assert.equal(count(await text(it), 'count to 40'), 1, await text(it));
    await other.locator('#stop').click();
    for (const it of [page, other]) await until(it, /Stopped\./);
    const [one, two] = [await text(page), await text(other)];
    assert.equal(one, two);
    assert.equal(count(one, '1 2 3 4'), 1, one);
    assert.ok(!one.includes(' 40 '), one);
    await page.reload();
    await until(page, /Stopped\./);
    assert.equal(count(await text(page), '1 2 3 4'), 1);
    await page.close();
    await other.close();
  },
  async 'an approval by keyboard, from one of two tabs'() {
    const page = await tab('c'), other = await tab('c', { width: 360, height: 740, dark: true });
    await say(page, 'remove the notes');
    await until(page, /Allow remove_notes\?/);
    await until(other, /Allow remove_notes\?/);
    await until(page, /-Buy milk\./);
    await page.waitForFunction(() => document.activeElement.matches('.question'), { timeout: 5000 });
    await check(page, 'an approval');
    await check(other, 'an approval in the dark, narrow');
    await picture(page, 'approval-wide-light');
    await picture(other, 'approval-narrow-dark');
    // A page that is loaded now asks the same.
    await other.reload();
    await until(other, /Allow remove_notes\?/);
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.innerText), 'Allow');
    await page.keyboard.press('Enter');
    for (const it of [page, other]) {
      await until(it, /I have it\. The notes are removed\./);
      await idle(it);
      assert.equal(count(await text(it), 'The notes are removed.'), 1, await text(it));
      assert.ok(!/Allow/.test(await text(it)));
    }
    assert.equal(await page.evaluate(() => document.activeElement.id), 'words');
    await page.close();
    await other.close();
  },
  async 'two approvals at once from two tabs count once'() {
    const page = await tab('d'), other = await tab('d');
    await say(page, 'remove the notes');
    for (const it of [page, other]) await until(it, /Allow remove_notes\?/);
    await Promise.all([page, other].map((it) => it.$eval('.allow', (button) => button.click())));
    for (const it of [page, other]) { await until(it, /I have it\./); await idle(it); }
    const problems = (await text(page, '#composer')) + (await text(other, '#composer'));
    // The answer that came second is told so, while the run of the first one goes on or behind it.
    assert.equal(problems.match(/answer came too late|conversation is busy/g)?.length, 1, problems);
    assert.equal(await text(page), await text(other));
    await page.close();
    await other.close();
  },
  async 'a denial with its reason'() {
    const page = await tab('e', { dark: true });
    await say(page, 'remove the notes');
    await until(page, /Allow/);
    await page.type('.question input', 'They are needed.');
    await page.$$eval('.question button', (all) => all.find((it) => it.innerText === 'Deny').click());
    await until(page, /remove_notes denied/);
    await until(page, /They are needed\./);
    await idle(page);
    await check(page, 'a denial');
    await page.close();
  },
  async 'a form'() {
    const page = await tab('f', { width: 360, height: 740 });
    await say(page, 'book a table');
    await until(page, /When, and for how many\?/);
    await page.select('.question select', 'Saturday');
    await page.type('.question input[type=number]', '4');
    await check(page, 'a form');
    await picture(page, 'form-narrow-light');
    await page.locator('.question .allow').click();
    await until(page, /A table is booked: \{"day":"Saturday","seats":4,"outside":false\}/);
    await idle(page);
    await say(page, 'book a table');
    await until(page, /When, and for how many\?/);
    await page.$$eval('.question button', (all) => all.find((it) => it.innerText === 'Decline').click());
    await until(page, /No table is booked\./);
    await page.close();
  },
  async 'hostile words'() {
    const page = await tab('g');
    const hostile = ['<img src=x onerror=alert(1)>', '<script>alert(2)</script>', '[a](javascript:alert(3))', '<svg/onload=alert(4)>',
      '<iframe srcdoc="<script>alert(5)</script>"></iframe>', '<a href="data:text/html,<script>alert(6)</script>">b</a>',
      '<form action=//x><input name=id></form>', '![p](https://evil.example/p.png)', '<style>*{display:none}</style>', '<math><mtext></p><img src onerror=alert(7)>'];
    for (const it of hostile) {
      await say(page, it);
      await until(page, new RegExp('You said:'));
      await idle(page);
    }
    await page.reload();
    await until(page, /You said:/);
    const found = await page.$$eval('#log :is(script, img, svg, iframe, form, style, object, embed, math)', (all) => all.map((it) => it.outerHTML));
    assert.deepEqual(found, []);
    const links = await page.$$eval('#log a[href]', (all) => all.map((it) => it.protocol));
    assert.ok(links.every((it) => ['https:', 'http:', 'mailto:'].includes(it)), String(links));
    await say(page, '**strong** and `code`\n');
    await page.waitForSelector('#log .words strong');
    // The title of the list is a model's or a user's word, too.
    await check(page, 'hostile words');
    await page.close();
  },
  async 'a server that is killed and comes back'() {
    const page = await tab('h'), other = await tab('i');
    await say(other, 'remove the notes');
    await until(other, /Allow/);
    await say(page, 'count to 20');
    await until(page, /1 2 3 4/);
    await kill();
    await until(page, /The connection is lost/, '#connection');
    await picture(page, 'lost-wide-light');
    await start();
    // The run goes on by itself: the scripted model counts anew.
    await until(page, /18 19 20/);
    await idle(page);
    assert.equal(count(await text(page), 'count to 20'), 1, await text(page));
    await until(other, /Allow/);
    await other.locator('.question .allow').click();
    await until(other, /I have it\./);
    await page.close();
    await other.close();
  },
  async 'pictures'() {
    for (const [width, height] of [[1200, 800], [360, 740]]) {
      for (const dark of [false, true]) {
        const page = await tab(`p${width}${dark}`, { width, height, dark });
        await say(page, 'What is the weather in Oslo?');
        await until(page, /I have it/);
        await idle(page);
        await say(page, 'Hello. Here is a list:\n');
        await until(page, /You said/);
        await idle(page);
        await say(page, 'remove the notes');
        await until(page, /Allow/);
        await page.$eval('.call', (it) => { it.open = true; it.scrollIntoView(); });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${width}: ${wide}`);
        await check(page, `${width} ${dark}`);
        await picture(page, `page-${width}-${dark ? 'dark' : 'light'}`);
        if (width < 500) {
          await page.locator('#menu').click();
          await check(page, 'the list, narrow');
          await picture(page, `list-${width}-${dark ? 'dark' : 'light'}`);
        }
        await page.close();
      }
    }
  },
  async 'the picture of the README'() {
    const page = await tab('readme', { width: 900, height: 680 });
    await say(page, 'What is the weather in Oslo?');
    await until(page, /I have it/);
    await idle(page);
    await say(page, 'remove the notes');
    await until(page, /Allow/);
    await picture(page, 'service');
    await page.close();
  },
  async 'useChat: a question with a tool, a reload in the middle, a second tab, and stop'() {
    const page = await reactTab('ra');
    await say(page, 'What is the weather in Oslo?');
    await until(page, /I have it\. Oslo: 7 degrees, rain/);
    await until(page, /tool-weather: output-available/);
    await idle(page);
    await say(page, 'count to 1000');
    await until(page, /1 2 3 4/);
    await page.reload();
    await until(page, /1 2 3 4 5 6 7 8/);
    const other = await reactTab('ra');
    await until(other, /1 2 3 4 5 6 7 8 9 10/);
    for (const it of [page, other]) {
      const log = await text(it);
      for (const once of ['count to 1000', '1 2 3 4', 'What is the weather', 'I have it.']) assert.equal(count(log, once), 1, `${once}: ${log}`);
    }
    await other.$eval('#stop', (button) => button.click());
    for (const it of [page, other]) await idle(it);
    assert.equal(await text(page), await text(other));
    await page.bringToFront();
    await picture(page, 'use-chat');
    await page.close();
    await other.close();
  },
  async 'useChat: two approvals of two calls, at once from two tabs'() {
    const page = await reactTab('rb'), other = await reactTab('rb');
    await say(page, 'remove the notes twice');
    for (const it of [page, other]) await it.waitForFunction(() => document.querySelectorAll('.allow').length === 2, { timeout: 30000, polling: 50 });
    const at = (it, number) => it.$$eval('.allow', (all, at) => all[at].click(), number);
    await Promise.all([at(page, 0), at(other, 1)]);
    for (const it of [page, other]) {
      await until(it, /I have it\. The notes are removed\. The notes are removed\./);
      await idle(it);
      const log = await text(it);
      for (const [what, times] of [['output-available', 2], ['I have it.', 1], ['remove the notes twice', 1]]) assert.equal(count(log, what), times, log);
    }
    await page.close();
    await other.close();
  },
  async 'useChat: a server that is killed and comes back'() {
    const page = await reactTab('rc'), other = await reactTab('rd');
    await say(other, 'remove the notes');
    await other.waitForSelector('.allow');
    await say(page, 'count to 30');
    await until(page, /1 2 3 4/);
    await kill();
    await until(page, /error/, '#status');
    await start();
    await until(page, /28 29 30/);
    await idle(page);
    assert.equal(count(await text(page), 'count to 30'), 1, await text(page));
    await other.bringToFront();
    await other.$eval('.allow', (button) => button.click());
    await until(other, /I have it\. The notes are removed\./);
    await page.close();
    await other.close();
  },
  async 'a sign-in'() {
    await kill();
    await start({ SERVICE_TOKENS: 'ada:secret-of-ada,ben:secret-of-ben' });
    const page = await tab('a');
    await page.waitForSelector('dialog[open]');
    await check(page, 'a sign-in');
    await page.type('#token', 'secret-of-ada');
    await page.keyboard.press('Enter');
    await say(page, 'weather in Oslo');
    await until(page, /I have it\. Oslo/);
    assert.ok(!(await text(page)).includes('What is'), 'the conversation of somebody else');
    await page.close();
  },
};
let code = 0;
try {
  for (const [name, step] of Object.entries(steps)) {
    if (process.env.STEP && !name.includes(process.env.STEP)) continue;
    if (name.startsWith('useChat') && lacks.length > 0) {
      console.log(`skipped: ${name}: not in ${npm}: ${lacks.join(', ')}`);
      continue;
    }
    await step();
    assert.deepEqual(faults, [], name);
    console.log(`ok: ${name}`);
  }
} catch (error) {
  console.log(error.stack);
  code = 1;
} finally {
  await browser.close();
  await kill();
  rmSync(folder, { recursive: true });
}
process.exit(code);
