// Shows recorded traces. What is recorded becomes text, never markup.
const { recordings, difference } = JSON.parse(document.getElementById('data').textContent);
const $ = (id) => document.getElementById(id);

// -- What is shown: runs, and their rows -----------------------------------------------------------------------------

const rows = [], byId = new Map();

/** The runs of a recording, each with rows for its turns, calls and other events. Runs of agents are inside of calls. */
function read({ events, costs }, side) {
  const runs = new Map(), ids = new Map(), tools = new Map();
  const row = (run, kind, at, event, more) => {
    // One event can have several rows. The first one has the number of the event.
    const again = ids.get(event) ?? 0;
    ids.set(event, again + 1);
    const made = { kind, run, id: `${side}${event}${again ? `.${again}` : ''}`, from: at, to: null, bars: [], events: [], inside: [], failed: false, ...more };
    run.rows.push(made);
    return made;
  };
  events.forEach((event, index) => {
    const at = event.at_us;
    let run = runs.get(event.run);
    if (!run) {
      run = { id: `run-${side}${index}`, name: event.run, side, rows: [], calls: new Map(), prompt: [], from: at, to: at, writes: 0, writing: 0, cost: null };
      runs.set(event.run, run);
    }
    run.to = Math.max(run.to, at);
    const callOf = (id, tool, anew) => {
      let found = run.calls.get(id);
      if (!found || (anew && found.outcome)) {
        found = row(run, 'call', at, index, { name: tools.get(id) ?? id, call: id });
        run.calls.set(id, found);
      }
      if (tool) { found.name = tool; tools.set(id, tool); }
      return found;
    };
    const endWait = (it) => {
      const since = it.waits ?? (event.waited_ms != null ? at - event.waited_ms * 1000 : null);
      if (since !== null) it.bars.push(['wait', Math.max(since, run.from), at]);
      if (since !== null) it.waited = event.waited_ms != null ? event.waited_ms * 1000 : at - since;
      it.waits = null;
    };
    const note = (more) => { const it = row(run, 'note', at, index, { name: event.event.replaceAll('_', ' '), text: wordsOf(event), ...more }); it.events.push(event); return it; };
    const finish = (it) => {
      it.outcome = event.outcome;
      it.result = event;
      it.failed = event.outcome !== 'succeeded';
      run.prompt.push({ role: `result of ${it.name}`, text: event.text, row: it });
    };
    // The event belongs to the row of its call.
    let call = null;
    if (typeof event.call === 'string' && event.event !== 'grant_revoked') {
      call = callOf(event.call, event.tool, event.event === 'call_started');
      call.events.push(event);
    }
    switch (event.event) {
      case 'run_started': {
        run.start = event;
        run.row = note(event.said != null ? { name: 'user', text: event.said } : { name: 'continues', text: '' });
        if (event.said != null) run.prompt.push({ role: 'user', text: event.said });
        const outer = event.caller && runs.get(event.caller.run);
        const caller = outer?.calls.get(event.caller.call);
        let above = outer;
        while (above && above !== run) above = above.caller?.run;
        if (caller && !above && !run.caller) { run.caller = caller; caller.inside.push(run); }
        break;
      }
      case 'turn_started':
        run.turn = row(run, 'turn', at, index, { name: `turn ${event.turn}`, prompt: run.prompt });
        run.turn.events.push(event);
        run.prompt = [];
        break;
      case 'answer_began':
        if (run.turn) run.turn.first ??= at;
        break;
      case 'model_replied':
      case 'interrupted': {
        const turn = run.turn ?? (event.event === 'model_replied' ? row(run, 'turn', at, index, { name: `turn ${event.turn}`, prompt: run.prompt }) : null);
        if (turn) {
          Object.assign(turn, { to: at, reply: event, text: event.text, cost: costs[index] ?? null });
          turn.events.push(event);
        }
        run.turn = null;
        for (const it of event.calls ?? []) {
          const made = callOf(it.call, it.tool, true);
          made.arguments ??= it.arguments;
          if (!made.events.length) made.from = at;
        }
        if (event.event === 'interrupted') note({ failed: event.cause.by !== 'program', text: event.cause.error ?? event.cause.detail ?? `by the ${event.cause.by}` });
        break;
      }
      case 'call_queued': call.queued = at; break;
      case 'call_started':
        if (call.waits != null) endWait(call);
        if (call.queued) call.bars.push(['wait', call.queued, at]);
        Object.assign(call, { started: at, closed: false, early: event.early, arguments: event.arguments, queued: null });
        break;
      case 'call_decided':
        if (call.waits != null || event.waited_ms != null) endWait(call);
        call.denied = event.denied;
        call.decision = event;
        break;
      case 'call_waits': call.waits = at; call.awaited = event.awaited; call.question = event.question; closeBar(call, at); break;
      case 'call_answered': endWait(call); call.answer = event; break;
      case 'call_settled': endWait(call); finish(call); break;
      case 'call_finished':
        if (call.waits != null) endWait(call);
        closeBar(call, event.ran_us != null && call.started != null ? Math.min(call.started + event.ran_us, run.to) : at);
        call.ran = event.ran_us;
        finish(call);
        break;
      case 'call_progressed': (call.progress ??= []).push(event.message); break;
      case 'call_dropped': closeBar(call, at); call.outcome = 'dropped'; break;
      case 'call_ended': call.later = event; break;
      case 'reconcile_failed': call.failed = true; call.unknown = event.error; break;
      case 'call_cleared': case 'call_undecided': break;
      case 'tools_found': break;
      case 'hold': case 'appended':
        if (['taken', 'written', 'read_back'].includes(event.outcome)) {
          if (event.event === 'appended') { run.writes += 1; run.writing += event.took_us; }
        } else note({ failed: true });
        break;
      case 'retried':
        note({ warns: true, bars: [['wait', at, at + event.wait_us]] });
        run.to = Math.max(run.to, Math.min(at + event.wait_us, at + 86_400_000_000));
        break;
      case 'run_ended':
        run.end = event;
        if (run.row) run.row.events.push(event); else note({});
        break;
      default: {
        if (event.event === 'steered') run.prompt.push({ role: 'user', text: event.text });
        if (event.event === 'answer_rejected') run.prompt.push({ role: 'faults', text: (event.faults ?? []).join('\n') });
        if (event.event === 'context_compacted') run.prompt.push({ role: 'summary of earlier messages', text: event.text });
        const failed = ['compaction_failed', 'answer_rejected', 'context_overflowed'].includes(event.event);
        note({ failed, warns: ['fell_back', 'discarded', 'limit_near', 'limit_unknown', 'lines_lost', 'vendor_summary_refused', 'parameter_dropped', 'reopened'].includes(event.event) });
      }
    }
  });
  const tops = [...runs.values()].filter((run) => !run.caller);
  for (const run of runs.values()) {
    for (const it of run.rows) {
      if (it.kind === 'turn' && it.to === null) Object.assign(it, { to: run.to, failed: true, text: 'has no answer' });
      if (it.kind !== 'call') continue;
      if (it.waits != null) it.bars.push(['wait', it.waits, run.to]);
      else if (it.started != null && !it.outcome) { closeBar(it, run.to); it.failed = true; }
    }
    run.cost = run.end?.cost ?? null;
    run.failed = run.end ? !run.end.answered && !run.rows.some((it) => it.waits != null) : false;
  }
  return tops;
}

function closeBar(call, at) {
  if (call.started != null && !call.closed) call.bars.push([call.early ? 'early' : 'call', call.started, Math.max(call.started, at)]);
  call.closed = call.started != null;
}

/** The words of an event that has no form of its own: all its texts. */
function wordsOf(event) {
  const { v, run, event: name, ...members } = event;
  return textsIn(members).join(' · ');
}
function textsIn(value, numbers) {
  if (typeof value === 'string') return value ? [value] : [];
  if (typeof value === 'number') return numbers ? [String(value)] : [];
  return value && typeof value === 'object' ? Object.values(value).flatMap((inside) => textsIn(inside, numbers)) : [];
}

/** Numbers the rows in the order of the page. */
function number(runs, parent) {
  for (const run of runs) {
    for (const it of run.rows) {
      it.parent = parent;
      it.order = rows.push(it);
      if (!byId.has(it.id)) byId.set(it.id, it);
      number(it.inside, it);
    }
  }
}

// -- Numbers and texts -----------------------------------------------------------------------------------------------

function time(us) {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 10_000_000) return `${Math.floor(us / 1000)} ms`;
  const s = Math.round(us / 1e6);
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([size]) => s >= size);
  return parts.slice(first, first + 2).map(([size, unit], at) => [Math.floor((at ? s % parts[first][0] : s) / size), unit])
    .filter(([count], at) => !at || count).map((it) => it.join(' ')).join(' ');
}
const count = (n, what) => `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;
const tokens = (usage) => `${usage?.input?.toLocaleString('en') ?? '?'} → ${usage?.output?.toLocaleString('en') ?? '?'}`;
const money = (cost) => cost.toFixed(cost < 0.01 ? 5 : 4);
const line = (text, most = 200) => { const it = text.slice(0, most * 2).replace(/\s+/g, ' ').trim(); return it.length > most || text.length > most * 2 ? it.slice(0, most) + ' …' : it; };

/** JSON text with line breaks. Numbers and repeated names stay as they are written. Other text is returned as it is. */
function pretty(text) {
  try {
    const value = JSON.parse(text);
    if (value === null || typeof value !== 'object') return text;
  } catch { return text; }
  let depth = 0, last = '';
  const br = () => '\n' + '  '.repeat(Math.min(depth, 40));
  return text.replace(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+|\s+/g, (token) => {
    if (/^\s/.test(token)) return '';
    const opened = last === '{' || last === '[';
    last = token;
    if (token === '}' || token === ']') { depth -= 1; return opened ? token : br() + token; }
    const begin = opened ? br() : '';
    if (token === '{' || token === '[') { depth += 1; return begin + token; }
    if (token === ',') return ',' + br();
    return token === ':' ? ': ' : begin + token;
  });
}

// -- The page --------------------------------------------------------------------------------------------------------

function make(name, members = {}, ...inside) {
  const it = document.createElement(name);
  for (const [member, value] of Object.entries(members)) {
    if (member in it) it[member] = value; else it.setAttribute(member, value);
  }
  it.append(...inside.filter((part) => part !== null && part !== undefined && part !== ''));
  return it;
}

/** A round step that divides the time into about 4 to 10 parts. */
function step(whole) {
  for (let size = 1; ; size *= 10) for (const factor of [1, 2, 5]) if (whole / (size * factor) <= 6) return size * factor;
}

const CHUNK = 20;

function drawRun(run, level = 2) {
  const whole = Math.max(run.to - run.from, 1);
  const share = (us) => `${Math.min(Math.max((us / whole) * 100, 0), 100)}%`;
  const calls = run.rows.filter((it) => it.kind === 'call'), bad = run.rows.filter((it) => it.failed).length;
  const turns = run.rows.filter((it) => it.kind === 'turn').length;
  const start = run.start, title = line(start?.said ?? (start ? 'The run continues' : 'Outside of a run'), 300);
  const known = [
    start?.unix_ms ? new Date(start.unix_ms).toLocaleString() : '', [start?.provider, start?.model].filter(Boolean).join(' '),
    time(run.to - run.from), count(turns, 'turn'), count(calls.length, 'call'), bad ? count(bad, 'failure') : '',
    run.end ? `tokens ${tokens(run.end.usage)}` : '', run.cost !== null ? `cost ${money(run.cost)}` : '',
    run.writes ? `${count(run.writes, 'write')} to the journal in ${time(run.writing)}` : '',
  ].filter(Boolean).join(' · ');
  const axis = make('div', { className: 'axis', 'aria-hidden': 'true' });
  const size = step(whole);
  for (let at = 0; at <= whole && axis.childElementCount < 12; at += size) {
    const tick = make('span', {}, time(at));
    tick.style.left = share(at);
    axis.append(tick);
  }
  const list = make('div', { className: 'rows' });
  for (let at = 0; at < run.rows.length; at += CHUNK) {
    const part = run.rows.slice(at, at + CHUNK);
    const chunk = make('div', { className: 'chunk' });
    chunk.style.setProperty('--rows', part.length);
    // What is far from the window is not filled before it comes near.
    chunk.addEventListener('contentvisibilityautostatechange', ({ skipped, target }) => {
      if (target !== chunk) return;
      chunk.skipped = skipped;
      if (!skipped) for (const it of part) if (it.element.open) fill(it);
    });
    chunk.append(...part.map((it) => drawRow(it, share)));
    list.append(chunk);
  }
  const outcome = run.end ? make('p', { className: run.failed ? 'outcome failed' : 'outcome' }, run.end.outcome) : start ? make('p', { className: 'outcome' }, 'The end is not recorded.') : null;
  return (run.element = make('section', { className: 'run', id: run.id, 'aria-label': line(title, 80) },
    make(`h${Math.min(level, 6)}`, {}, title),
    make('p', { className: 'known' }, known), axis, list, outcome));
}

function drawRow(it, share) {
  const { run } = it;
  const bars = it.kind === 'turn' ? [['model', it.from, it.to]] : it.bars;
  const lane = make('span', { className: 'lane', 'aria-hidden': 'true' });
  for (const [kind, from, to] of bars) {
    const bar = make('i', { className: `bar ${kind}${it.failed && kind !== 'wait' ? ' failed' : ''}` });
    bar.style.left = share(from - run.from);
    bar.style.width = share(to - from);
    if (kind === 'model' && it.first) {
      const silent = make('i');
      silent.style.width = `${((it.first - from) / Math.max(to - from, 1)) * 100}%`;
      bar.append(silent);
    }
    lane.append(bar);
  }
  if (!bars.length) {
    const dot = make('i', { className: `bar dot${it.failed ? ' failed' : ''}` });
    dot.style.left = share(it.from - run.from);
    lane.append(dot);
  }
  const bar = bars.findLast(([kind]) => kind !== 'wait');
  const figures = [
    it.inside.length ? count(it.inside.length, 'agent') : '',
    it.reply?.usage?.input != null || it.reply?.usage?.output != null ? tokens(it.reply.usage) : '', it.cost != null ? money(it.cost) : '',
    it.waited ? `waited ${time(it.waited)}` : '', bar ? time(it.ran ?? bar[2] - bar[1]) : '',
  ].filter(Boolean).join(' · ');
  const summary = make('summary', {},
    make('span', { className: 'name' }, line(it.name, 80)),
    make('span', { className: 'text' }, state(it) ? make('b', {}, state(it) + ' ') : null, line(said(it))), lane,
    make('span', { className: 'figures' }, figures));
  const classes = ['row', it.kind, it.failed ? 'failed' : '', it.warns || it.waits != null ? 'warns' : '', it.differs ? 'differs' : ''];
  it.element = make('details', { id: it.id, className: classes.filter(Boolean).join(' ') }, summary);
  it.element.hidden = !isFound(it);
  it.element.addEventListener('toggle', () => { if (it.element.open && !it.element.parentElement.skipped) fill(it); });
  return it.element;
}

/** The state of a row in words, so that it is not told by colour alone. */
function state(it) {
  if (it.differs) return 'differs';
  if (it.kind === 'call') {
    if (it.waits != null) return { approval: 'waits for an approval', result: 'waits for its result', answer: 'waits for an answer', agent: 'waits for its agent' }[it.awaited] ?? 'waits';
    if (it.started != null && !it.outcome) return 'has no result';
    return !it.outcome || it.outcome === 'succeeded' ? '' : it.outcome.replaceAll('_', ' ');
  }
  return it.failed && it.kind === 'note' ? 'failed' : '';
}
function said(it) {
  if (it.kind !== 'call') return it.text || (it.reply?.calls ?? []).map((call) => call.tool).join(', ');
  return [it.arguments === '{}' ? '' : it.arguments, it.waits != null ? it.question : it.denied ?? it.result?.text].filter(Boolean).map((text) => line(text)).join(' → ');
}

/** Fills an opened row with everything that is recorded of it. */
function fill(it) {
  if (it.filled) return;
  it.filled = true;
  const parts = [], add = (label, text, more) => { if (text != null && text !== '') parts.push(block(label, String(text), more)); };
  const facts = [];
  if (it.kind === 'turn') {
    const { reply, run } = it;
    const { usage = {}, context = {} } = reply ?? {};
    for (const { role, text, row } of it.prompt ?? []) add(`Prompt: ${role}`, row && text.length > 500 ? text.slice(0, 500) + ' …' : text, row);
    if (it.prompt && !it.prompt.length) facts.push(['prompt', 'nothing new since the turn before']);
    if (run.start?.earlier) facts.push(['messages before the run', run.start.earlier]);
    add('Thinking', reply?.reasoning);
    add('Answer', reply?.text);
    for (const call of reply?.calls ?? []) add(`Call of ${call.tool}`, call.arguments, run.calls.get(call.call));
    for (const [what, sum] of Object.entries(usage)) facts.push([`tokens: ${what.replaceAll('_', ' ')}`, sum.toLocaleString('en')]);
    for (const [what, sum] of Object.entries(context)) if (sum > 0) facts.push([`of the request: ${what}`, sum.toLocaleString('en')]);
    if (it.cost != null) facts.push(['cost by list prices', money(it.cost)]);
    if (reply?.stop) facts.push(['stop', reply.stop]);
    if (reply?.model) facts.push(['model', `${reply.provider} ${reply.model}`]);
    if (it.first) facts.push(['first word after', time(it.first - it.from)]);
  } else if (it.kind === 'call') {
    const { by, side_effects: effects } = it.decision ?? {};
    add('Arguments', it.arguments);
    add('Question', it.question);
    add(`Answer${it.answer?.who ? ` of ${it.answer.who}` : ''}`, it.answer?.answer);
    add('Denied', it.denied);
    add('Progress', it.progress?.join('\n'));
    add('Result', [it.result?.text, ...(it.result?.files ?? [])].filter(Boolean).join('\n'));
    add('Ended later', it.later?.text);
    add('What became of it is unknown', it.unknown);
    if (it.outcome) facts.push(['outcome', it.outcome.replaceAll('_', ' ')]);
    if (by?.decider) facts.push(['decided by', [by.decider.replaceAll('_', ' '), by.who ?? by.name].filter(Boolean).join(': ')]);
    if (effects) facts.push(['side effects', typeof effects === 'string' ? effects : textsIn(effects).join(', ')]);
    if (it.waited != null) facts.push(['waited', time(it.waited)]);
    if (it.ran != null) facts.push(['ran', time(it.ran)]);
    if (it.early) facts.push(['began', 'before the end of the answer']);
    facts.push(['call', it.call]);
  } else {
    add('Text', it.text);
    if (it === it.run.row) add('End', it.run.end?.outcome);
  }
  facts.push(['began after', time(it.from - it.run.from)]);
  const list = make('dl', {}, ...facts.map(([what, value]) => make('div', {}, make('dt', {}, what), make('dd', {}, String(value)))));
  const raw = make('details', { className: 'raw' }, make('summary', {}, `Recorded: ${count(it.events.length, 'event')}`));
  raw.addEventListener('toggle', () => { if (raw.childElementCount < 2) raw.append(block('JSON', it.events.map((event) => JSON.stringify(event, null, 2)).join('\n'))); });
  const link = make('p', { className: 'link' }, make('a', { href: `#${it.id}` }, 'Link to this row'));
  const inside = it.inside.map((run) => drawRun(run, 3));
  it.element.append(make('div', { className: 'body' }, ...(it.kind === 'turn' ? [list, ...parts] : [...parts, ...inside, list]), raw, link));
  if (query) requestAnimationFrame(mark);
}

/** A text with its label, and a button that copies it as it is recorded. */
function block(label, text, row) {
  const copy = make('button', { type: 'button', className: 'copy', 'aria-label': `Copy: ${label}` }, 'Copy');
  copy.addEventListener('click', async () => { tell(await copied(text) ? 'Copied.' : 'The browser does not allow to copy.'); });
  const head = row ? make('a', { href: `#${row.id}` }, label) : make('span', {}, label);
  return make('div', { className: 'block' }, make('div', { className: 'label' }, head, copy), make('pre', { tabIndex: 0, role: 'group', 'aria-label': label }, pretty(text)));
}
async function copied(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* Not in every browser for a page in a file or a sandbox. */ }
  const field = make('textarea', { value: text, className: 'away' }), focus = document.activeElement;
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  focus?.focus();
  return done;
}
const tell = (text) => { $('found').textContent = text; };

// -- Going to rows, and search ---------------------------------------------------------------------------------------

let current = null;

/** Shows a row, also within the agent of a call that is folded. */
function reveal(it, opens) {
  if (it.parent) reveal(it.parent, true);
  if (opens && it.element) { it.element.open = true; fill(it); }
}
function go(it, { opens = true, focus = true, link = true } = {}) {
  if (query && !isFound(it)) search('');
  reveal(it, opens);
  current = it;
  const summary = it.element.querySelector('summary');
  summary.scrollIntoView({ block: 'center' });
  if (focus) summary.focus({ preventScroll: true });
  if (link) try { history.replaceState(null, '', `#${it.id}`); } catch { /* A page without an address of its own. */ }
}
/** The next of these rows behind the current one, or before it. */
function next(of, back) {
  if (!of.length) return null;
  const at = current?.order ?? (back ? Infinity : 0);
  return back ? of.findLast((it) => it.order < at) ?? of.at(-1) : of.find((it) => it.order > at) ?? of[0];
}
function goFailure(back) {
  const it = next(failures, back);
  if (!it) return tell('Nothing failed.');
  go(it);
  tell(`Failure ${failures.indexOf(it) + 1} of ${failures.length}: ${line(it.name, 60)}`);
}
function goRow(back) {
  const isShown = (it) => it.element?.isConnected && !it.element.hidden && !it.element.parentElement.closest('details:not([open])');
  let at = (current?.order ?? (back ? 2 : 0)) - 1;
  do at += back ? -1 : 1; while (rows[at] && !isShown(rows[at]));
  if (rows[at]) go(rows[at], { opens: false });
}

let query = '', matches = [];
const textOf = (it) => (it.haystack ??= [it.name, ...it.events.flatMap((event) => textsIn(event, true))].join('\n').toLowerCase());
const isFound = (it) => !query || it.found;
function search(words) {
  query = words.trim().toLowerCase();
  if ($('search').value.trim().toLowerCase() !== query) $('search').value = words;
  for (const it of rows) it.found = false;
  matches = query ? rows.filter((it) => textOf(it).includes(query)) : [];
  for (const match of matches) for (let it = match; it && !it.found; it = it.parent) it.found = true;
  for (const it of rows) if (it.element) it.element.hidden = !isFound(it);
  tell(query ? `${count(matches.length, 'row')} found. Enter goes to the next one.` : '');
  mark();
}
function goMatch(back) {
  const it = next(matches, back);
  go(it, { focus: false });
  mark();
  const range = [...CSS.highlights?.get('found') ?? []].find((range) => it.element.contains(range.startContainer) && !range.startContainer.parentElement.closest('summary'));
  range?.startContainer.parentElement.scrollIntoView({ block: 'nearest' });
}
/** Marks the words of the search in all opened rows, without a change of the document. */
function mark() {
  if (!globalThis.Highlight) return;
  CSS.highlights.delete('found');
  if (!query) return;
  const ranges = [];
  for (const { element } of matches) {
    if (!element?.open || ranges.length > 5000) continue;
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode.data.toLowerCase();
      for (let at = text.indexOf(query); at >= 0 && at + query.length <= texts.currentNode.length; at = text.indexOf(query, at + query.length)) {
        const range = new Range();
        range.setStart(texts.currentNode, at);
        range.setEnd(texts.currentNode, at + query.length);
        ranges.push(range);
      }
    }
  }
  CSS.highlights.set('found', new Highlight(...ranges));
}

// -- Two traces ------------------------------------------------------------------------------------------------------

/** The lines of a fact, of which those that the other one has not are marked. */
function drawDifference(differing) {
  const lines = differing.map((fact) => (fact ? linesOf(fact.members) : []));
  const [one, two] = lines;
  let same = 0, end = 0;
  while (same < Math.min(one.length, two.length) && one[same] === two[same]) same += 1;
  while (end < Math.min(one.length, two.length) - same && one.at(-1 - end) === two.at(-1 - end)) end += 1;
  const sides = lines.map((of, side) => {
    const other = lines[1 - side];
    const isSame = (text, at) => at < same || at >= of.length - end || (of.length === other.length && text === other[at]);
    const inside = of.map((text, at) => make(isSame(text, at) ? 'span' : 'mark', {}, text + '\n'));
    const row = rowOf(side);
    const head = make('div', { className: 'label' }, row ? make('a', { href: `#${row.id}` }, recordings[side].name) : recordings[side].name);
    return make('div', { className: 'block' }, head, make('pre', { tabIndex: 0, role: 'group', 'aria-label': recordings[side].name }, ...(of.length ? inside : ['This trace ends before.'])));
  });
  return make('section', { id: 'difference', 'aria-label': 'The first difference' }, make('h2', {}, 'The first fact that differs'), make('div', { className: 'pair' }, ...sides));
}
/** A value as lines: one for each member and item, and one for each line of a text. */
function linesOf(value) {
  if (typeof value === 'string') return pretty(value).split('\n');
  if (value === null || typeof value !== 'object') return [String(value)];
  return Object.entries(value).flatMap(([member, inside]) => {
    const lines = linesOf(inside), label = Array.isArray(value) ? '-' : `${member}:`;
    return lines.length === 1 && typeof inside !== 'object' ? [`${label} ${lines[0]}`] : [label, ...lines.map((text) => '  ' + text)];
  });
}
/** The row of the differing fact. */
function rowOf(side) {
  const fact = difference?.[side];
  const event = fact && recordings[side].events[fact.event];
  return event ? rows.findLast((it) => it.events.includes(event)) ?? null : null;
}
function goDifference() {
  for (const it of [rowOf(1), rowOf(0)]) if (it) go(it, { opens: false, link: false });
  scrollTo(0, 0);
}

// -- Begin -----------------------------------------------------------------------------------------------------------

const sides = recordings.map((recording, side) => read(recording, 'ab'[side]));
for (const runs of sides) number(runs, null);
const failures = rows.filter((it) => it.failed);
const main = document.querySelector('main');
if (difference !== undefined) {
  for (const side of [0, 1]) { const row = rowOf(side); if (row) row.differs = true; }
  main.append(difference ? drawDifference(difference) : make('p', { className: 'outcome' }, 'The facts of both traces are the same.'));
}
const columns = sides.map((runs, side) => make('div', { className: 'side' },
  recordings.length > 1 ? make('h2', { className: 'title' }, recordings[side].name) : null,
  ...(runs.length ? runs.map((run) => drawRun(run, recordings.length > 1 ? 3 : 2)) : [make('p', {}, 'There is no event.')])));
main.append(...(columns.length > 1 ? [make('div', { className: 'pair sides' }, ...columns)] : columns));
const of = (kind) => rows.filter((it) => it.kind === kind).length;
const first = sides[0][0]?.start?.said;
if (first) document.title = `${line(first, 60)} · trace`;
$('sum').textContent = [count(sides.flat().length, 'run'), count(of('turn'), 'turn'), count(of('call'), 'call'), failures.length ? count(failures.length, 'failure') : 'no failure'].join(' · ');
$('failure').hidden = !failures.length;
$('failure').append(`${count(failures.length, 'failure')}: next `, make('kbd', {}, 'f'));
$('differs').hidden = !difference;

let allOpen = false;
function openAll(opens) {
  allOpen = opens;
  for (const it of rows) {
    if (it.element) it.element.open = opens;
    if (it.element && opens && rows.length < 300) fill(it);
  }
}
const help = () => { $('help').hidden = !$('help').hidden; $('keys').setAttribute('aria-expanded', !$('help').hidden); };
$('failure').onclick = () => goFailure(false);
$('differs').onclick = goDifference;
$('open').onclick = () => openAll(!allOpen);
$('keys').onclick = help;
$('search').oninput = () => search($('search').value);
document.addEventListener('focusin', ({ target }) => { const row = target.closest?.('details.row'); if (row) current = byId.get(row.id) ?? current; });
document.addEventListener('keydown', (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target === $('search')) {
    if (key === 'Escape') { search(''); target.blur(); }
    if (key === 'Enter' && matches.length) { event.preventDefault(); goMatch(event.shiftKey); }
    return;
  }
  const does = {
    f: () => goFailure(false), F: () => goFailure(true), j: () => goRow(false), k: () => goRow(true), o: () => openAll(!allOpen),
    d: () => difference && goDifference(), '/': () => $('search').focus(), '?': help, Escape: () => search(''),
  }[key];
  if (does) { event.preventDefault(); does(); }
});
function goHash() {
  const it = byId.get(decodeURIComponent(location.hash.slice(1)));
  if (it) go(it);
  return Boolean(it);
}
addEventListener('hashchange', goHash);
// The browser goes to the link itself when all is loaded, and takes the focus away.
if (goHash()) addEventListener('load', () => setTimeout(goHash));
else if (difference) goDifference();

// On paper, every row is open, also those of agents, which are made while their calls are filled.
const closed = [];
addEventListener('beforeprint', () => {
  for (const it of rows) {
    if (!it.element?.open) closed.push(it);
    it.element.open = true;
    fill(it);
  }
});
addEventListener('afterprint', () => { for (const it of closed.splice(0)) it.element.open = false; });
