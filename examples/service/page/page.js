import { Conversation, endOf, sum, tokensOf, waitOf } from "./conversation.js";
import { marked } from "./marked.esm.js";
import DOMPurify from "./purify.es.mjs";

const by = (id) => document.getElementById(id);
const log = by("log"), words = by("words"), send = by("send"), stop = by("stop"), problem = by("problem");

/** An element. Strings are text and never markup. */
function make(tag, members = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(members)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

// ---- Words of the model

// What a text can be made of. There are no images: loading one would tell its server what was said.
const PURE = {
  ALLOWED_TAGS: ["p", "br", "strong", "em", "del", "code", "pre", "ul", "ol", "li", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "a",
    "table", "thead", "tbody", "tr", "th", "td"],
  ALLOWED_ATTR: ["href", "start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_DOM_FRAGMENT: true,
};
// Longer texts, and texts that the parser cannot read, such as thousands of nested quotes, are shown as they are.
const LONGEST = 50_000;
function markdown(text) {
  let pure;
  try {
    if (text.length > LONGEST) throw new RangeError("too long");
    pure = DOMPurify.sanitize(marked.parse(text, { gfm: true }), PURE);
  } catch {
    return make("pre", {}, text);
  }
  for (const link of pure.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  return pure;
}

/** A text in the unified format of `diff`. */
function diff(text) {
  const lines = text.replace(/\n$/, "").split("\n").map((line) => {
    const header = /^(\+\+\+|---|@@|diff )/.test(line);
    const tag = header ? "span" : line.startsWith("+") ? "ins" : line.startsWith("-") ? "del" : "span";
    return make(tag, { class: header ? "quiet" : undefined }, line + "\n");
  });
  return make("pre", { class: "diff" }, ...lines);
}
const isDiff = (text) => /^--- .*\n\+\+\+ /m.test(text) || /^@@ .* @@/m.test(text);

function value(it) {
  const text = typeof it === "string" ? it : JSON.stringify(it, null, 2);
  return isDiff(text) ? diff(text) : make("pre", {}, text);
}

// ---- Calls

const STATES = {
  "input-streaming": "is being written", "input-available": "runs", "approval-requested": "waits for you", "output-available": "done",
  "output-error": "failed", "output-denied": "denied",
};

function callOf(message, part, shown) {
  const wait = waitOf(message, part), name = part.type.slice(5);
  const whom = wait && ({ approval: "waits for you", answer: "asks you", result: "waits for a result from elsewhere", agent: "waits for its agent" }[wait.for]);
  const state = whom ?? STATES[part.state] ?? part.state;
  const kind = wait ? "waits" : part.state;
  if (wait?.id !== undefined) return [question(part, wait, name, whom)];
  const row = make("details", { class: "call " + kind, open: shown?.open || part.state === "output-error" },
    make("summary", {}, make("code", {}, name), " ", make("span", { class: "state" }, state), part.progress && !part.output ? ` · ${part.progress}` : ""));
  row.append(part.input !== undefined ? value(part.input) : make("pre", {}, part.written ?? ""));
  if (part.below) row.append(make("blockquote", {}, part.below));
  if (part.output !== undefined) row.append(make("p", { class: "quiet" }, "Result"), value(part.output));
  if (part.errorText !== undefined) row.append(make("p", { class: "quiet" }, "Error"), value(part.errorText));
  return [row];
}

/** What a person decides or answers. */
function question(part, wait, name, whom) {
  const title = `question-${wait.id}`;
  const isApproval = wait.for === "approval";
  const heading = isApproval ? make("h2", { id: title }, "Allow ", make("code", {}, name), "?") : make("h2", { id: title }, wait.question);
  const box = make("section", { class: "question", "aria-labelledby": title, tabindex: "-1", id: `wait-${wait.id}` },
    make("p", { class: "whom" }, make("code", {}, name), ` ${whom}`), heading);
  const done = (text) => {
    box.replaceChildren(make("p", { class: "quiet" }, text));
    words.focus();
  };
  if (!isApproval) {
    box.append(formOf(wait, async (answer) => {
      const output = { form: wait.id, answer };
      const ok = await say({ role: "assistant", parts: [{ type: "dynamic-tool", state: "output-available", output }] });
      if (ok) done(answer === null ? "Declined." : "Answered.");
    }));
    return box;
  }
  for (const reason of wait.reasons ?? []) box.append(make("p", {}, reason.text));
  if (wait.agents?.length) box.append(make("p", {}, "Asked by the agent of ", make("code", {}, wait.agents.join(" → "))));
  for (const change of wait.changes ?? []) box.append(make("p", {}, make("strong", {}, "Different from before: "), change));
  const given = { ...part.input, ...wait.defaults };
  if (typeof part.input !== "object" || Object.keys(given).length) box.append(value(typeof part.input === "object" ? given : part.input));
  if (wait.preview?.diff !== undefined) box.append(diff(wait.preview.diff));
  else if (wait.preview) box.append(value(wait.preview.text ?? wait.preview));
  const why = make("input", { id: `why-${wait.id}`, autocomplete: "off" });
  const decide = async (approved) => {
    const approval = { id: wait.id, approved, reason: (!approved && why.value) || undefined };
    for (const button of box.querySelectorAll("button")) button.disabled = true;
    const ok = await say({ role: "assistant", parts: [{ type: "dynamic-tool", state: "approval-responded", approval }] });
    if (ok) done(approved ? "Allowed." : "Denied.");
    for (const button of box.querySelectorAll("button")) button.disabled = false;
  };
  box.append(make("div", { class: "answers" },
    make("button", { type: "button", class: "allow", onclick: () => decide(true) }, "Allow"),
    make("button", { type: "button", onclick: () => decide(false) }, "Deny"),
    make("label", { for: why.id }, "Reason for a denial"), why));
  return box;
}

/** The form of a question: an object whose members are texts, numbers, yes or no, and choices. */
function formOf({ id, form }, answered) {
  const members = Object.entries(form?.properties ?? {});
  const fields = members.map(([name, schema], at) => {
    const choices = schema.enum ?? schema.oneOf?.map((it) => it.const);
    const common = { id: `field-${id}-${at}`, name, required: form.required?.includes(name) && schema.type !== "boolean" };
    const number = ["integer", "number"].includes(schema.type);
    const input = choices
      ? make("select", common, ...choices.map((it) => make("option", {}, String(it))))
      : make("input", { ...common, type: schema.type === "boolean" ? "checkbox" : number ? "number" : "text", min: schema.minimum, max: schema.maximum,
        step: schema.type === "number" ? "any" : undefined, autocomplete: "off" });
    const read = () => schema.type === "boolean" ? input.checked : input.value === "" ? undefined : number ? Number(input.value) : input.value;
    return { name, read, row: make("p", {}, make("label", { for: common.id }, schema.title ?? name), " ", input) };
  });
  const free = make("input", { id: `field-${id}`, required: true, autocomplete: "off" });
  const rows = members.length ? fields.map((it) => it.row) : [make("p", {}, make("label", { for: free.id }, "Answer"), " ", free)];
  const onsubmit = (event) => {
    event.preventDefault();
    answered(members.length ? Object.fromEntries(fields.map((it) => [it.name, it.read()])) : free.value);
  };
  const decline = make("button", { type: "button", onclick: () => answered(null) }, "Decline");
  return make("form", { onsubmit }, ...rows, make("div", { class: "answers" }, make("button", { class: "allow" }, "Answer"), decline));
}

// ---- Messages

let chat = new Conversation();
const rows = new Map();

function partOf(message, part, shown) {
  switch (part.type) {
    case "text": return message.role === "user" ? [make("p", { class: "said" }, part.text)] : [make("div", { class: "words" }, markdown(part.text))];
    case "reasoning": return [make("details", { class: "quiet", open: shown?.open }, make("summary", {}, "Thoughts"), make("p", { class: "said" }, part.text))];
    case "source-url": return [make("p", { class: "quiet" }, "Source: ", markdownLink(part))];
    case "source-document": return [make("p", { class: "quiet" }, `Source: ${part.title}`)];
    case "file": return [fileOf(part)];
    case "data-steered": return [make("p", { class: "said user" }, part.data.message.text)];
    default: return part.type.startsWith("tool-") ? callOf(message, part, shown) : [];
  }
}
function markdownLink({ url, title }) {
  return /^https?:/.test(url) ? make("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, title ?? url) : title ?? url;
}
function fileOf({ url, mediaType }) {
  const inline = url.startsWith("data:");
  return inline && mediaType.startsWith("image/") ? make("img", { src: url, alt: "Picture" }) : make("p", { class: "quiet" }, `File: ${mediaType}`);
}
function money(cost) {
  return cost == null ? " · cost not known" : ` · $${cost < 0.01 ? cost.toPrecision(2) : cost.toFixed(2)}`;
}
function footOf(message, isLast) {
  const { metadata, note } = message;
  const children = [];
  if (note) children.push(make("p", { class: "quiet" }, note));
  const end = endOf(metadata) ?? (metadata || chat.busy || !isLast ? undefined : "The run was cut off.");
  if (end) children.push(make("p", { class: "end" }, end));
  if (end && isLast && !chat.busy) children.push(make("button", { type: "button", onclick: () => say() }, "Continue"));
  const { input, output } = metadata?.usage ?? {}, all = tokensOf(metadata?.spent);
  const agents = all > (input ?? 0) + (output ?? 0) ? ` · ${all} with agents` : "";
  if (all) children.push(make("p", { class: "quiet usage" }, `${input ?? "?"} tokens in · ${output ?? "?"} out${agents}${money(metadata.cost)}`));
  return make("div", { class: "foot" }, ...children);
}

/** Shows a message as it is now. What did not change stays as it is, so that nobody loses a place in it. */
function show(message, isLast) {
  let row = rows.get(message);
  if (!row) {
    const name = message.role === "user" ? "You" : "Answer";
    row = { at: make("article", { class: message.role, "aria-label": name }), parts: [], foot: make("div") };
    row.at.append(row.foot);
    rows.set(message, row);
  }
  if (row.at.parentNode !== log) log.append(row.at);
  message.parts.forEach((part, at) => {
    const wait = part.toolCallId && waitOf(message, part);
    const is = JSON.stringify([part, wait]);
    const shown = row.parts[at];
    if (shown?.is === is) return;
    const nodes = partOf(message, part, shown?.nodes[0]);
    if (shown) {
      shown.nodes[0]?.before(...nodes);
      shown.nodes.forEach((node) => node.remove());
      if (!shown.nodes.length) row.foot.before(...nodes);
    } else row.foot.before(...nodes);
    row.parts[at] = { is, nodes };
  });
  for (const gone of row.parts.splice(message.parts.length)) gone.nodes.forEach((node) => node.remove());
  const foot = footOf(message, isLast);
  if (!foot.isEqualNode(row.foot)) {
    row.foot.replaceWith(foot);
    row.foot = foot;
  }
}

let asked = false, everything = true;
function draw(all) {
  everything ||= all;
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
    const focused = document.activeElement?.closest?.(".question")?.id;
    if (everything) {
      for (const [message, row] of rows) if (!chat.messages.includes(message)) { row.at.remove(); rows.delete(message); }
      chat.messages.forEach((message, at) => { show(message, at === chat.messages.length - 1); log.append(rows.get(message).at); });
    } else chat.messages.slice(-2).forEach((message, at, some) => show(message, at === some.length - 1));
    everything = false;
    if (atEnd) log.scrollTop = log.scrollHeight;
    send.hidden = chat.busy;
    stop.hidden = !chat.busy;
    log.setAttribute("aria-busy", chat.busy);
    const { tokens, cost } = sum(chat.messages);
    by("sum").textContent = tokens ? `${tokens} tokens${money(cost)}` : "";
    const first = chat.messages[0]?.parts.find((part) => part.type === "text")?.text;
    by("title").textContent = document.title = first?.slice(0, 80) || "New conversation";
    by("trace").hidden = !chat.trace || !chat.messages.length;
    focusQuestion(focused);
  });
}

// ---- What is said, and where the focus is

const spoken = by("spoken");
function speak(text) {
  spoken.append(make("p", {}, text));
  while (spoken.childElementCount > 5) spoken.firstChild.remove();
}
let sentence = "";
function hear(chunk) {
  switch (chunk.type) {
    case "text-delta": {
      sentence += chunk.delta;
      const end = Math.max(...[". ", "! ", "? ", "\n"].map((it) => sentence.lastIndexOf(it)));
      if (end >= 40) { speak(sentence.slice(0, end + 1)); sentence = sentence.slice(end + 1); }
      break;
    }
    case "text-end": if (sentence.trim()) speak(sentence); sentence = ""; break;
    case "tool-input-available": speak(`Calls ${chunk.toolName}.`); break;
    case "tool-output-error": speak("A call has failed."); break;
    case "tool-output-denied": speak("A call was denied."); break;
    case "data-waiting": if (chunk.data.id) speak(`${chunk.data.tool} waits for you.`); break;
    case "reset-step": sentence = ""; speak("The answer begins again."); break;
    case "finish": { const end = endOf(chunk.messageMetadata); if (end) speak(end); break; }
  }
}

const seen = new Set();
/** A new question gets the focus, unless the person writes. No button has it, so no key that was meant for the message decides. */
function focusQuestion(focused) {
  const questions = [...log.querySelectorAll(".question")];
  const fresh = questions.find((it) => !seen.has(it.id));
  questions.forEach((it) => seen.add(it.id));
  const active = document.activeElement;
  const idle = !active || active === document.body || (active === words && !words.value) || active === stop || active === send;
  if (fresh && idle && !focused) { fresh.focus(); fresh.scrollIntoView({ block: "nearest" }); }
  else if (focused && !active?.closest?.(".question")) by(focused)?.focus();
}

// ---- The service

let id = "";
const token = () => sessionStorage.getItem("token");
async function ask(path, options = {}) {
  const headers = { "content-type": "application/json" };
  if (token()) headers.authorization = `Bearer ${token()}`;
  const response = await fetch("/api/" + path, { ...options, headers });
  if (response.status === 401 && await signIn()) return ask(path, options);
  return response;
}
let signing;
function signIn() {
  const dialog = by("sign-in");
  signing ??= new Promise((done) => {
    dialog.showModal();
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", by("token").value);
      signing = undefined;
      done(by("token").value !== "");
    }, { once: true });
  });
  return signing;
}

/** Says something. Its run comes with the stream of the conversation. Without a message, the last run goes on. */
async function say(message) {
  problem.textContent = "";
  try {
    const body = JSON.stringify({ id, trigger: "submit-message", messages: message ? [message] : [] });
    const response = await ask("chat", { method: "POST", body });
    if (response.ok) {
      response.body?.cancel();
      return true;
    }
    problem.textContent = await response.text() || response.statusText;
  } catch {
    problem.textContent = "The service does not answer.";
  }
  return false;
}

// A browser keeps only six connections to a server, so a tab that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => document.hidden ? reading.abort() : follow());
let reading = new AbortController();
/** Reads the conversation, again and again if the connection breaks. */
async function follow() {
  reading.abort();
  const own = reading = new AbortController();
  const { signal } = own;
  for (let wait = 250; !signal.aborted; wait = Math.min(wait * 2, 8000)) {
    try {
      const response = await ask(`chat/${encodeURIComponent(id)}/stream?follow`, { signal });
      if (!response.ok) throw new Error(await response.text());
      by("connection").textContent = "";
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ;) {
        const { value, done } = await reader.read();
        if (done || signal.aborted) break;
        const events = (text + value).split("\n\n");
        text = events.pop();
        let all = false;
        for (const event of events) {
          const data = event.split("\n").find((line) => line.startsWith("data: "))?.slice(6);
          if (!data || data === "[DONE]") continue;
          const chunk = JSON.parse(data);
          wait = 250;
          all = chat.apply(chunk) || all;
          hear(chunk);
          if (chunk.type === "start" || chunk.type === "finish") { all = true; list(); }
        }
        draw(all);
      }
    } catch (error) {
      if (signal.aborted) return;
      console.debug(error);
    }
    if (signal.aborted) return;
    by("connection").textContent = "The connection is lost. Trying again …";
    await new Promise((next) => setTimeout(next, wait));
  }
}

let shownList = 0;
async function list(after) {
  const turn = ++shownList;
  const response = await ask("chats" + (after ? `?after=${encodeURIComponent(after)}` : "")).catch(() => undefined);
  if (!response?.ok || turn !== shownList) return;
  const { conversations, next } = await response.json();
  const items = conversations.map((it) => make("li", {},
    make("a", { href: "#" + encodeURIComponent(it.id), "aria-current": it.id === id ? "page" : undefined }, it.title || it.id),
    it.busy || it.waits ? make("span", { class: "quiet" }, it.busy ? " · answers" : " · waits for you") : undefined));
  const ul = by("list").querySelector("ul");
  if (after) ul.append(...items);
  else ul.replaceChildren(...items);
  by("more").hidden = !next;
  by("more").onclick = () => list(next);
}

// ---- The page

function open() {
  id = decodeURIComponent(location.hash.slice(1));
  if (!id) {
    const random = crypto.getRandomValues(new Uint8Array(8));
    id = [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    history.replaceState(null, "", "#" + id);
  }
  chat = new Conversation();
  sentence = problem.textContent = "";
  by("trace").href = `/api/chat/${encodeURIComponent(id)}/trace`;
  menu(false);
  draw(true);
  follow();
  list();
}
function menu(open) {
  document.body.classList.toggle("menu", open);
  by("menu").setAttribute("aria-expanded", open);
}
by("menu").onclick = () => menu(!document.body.classList.contains("menu"));
by("new").onclick = () => { location.hash = ""; open(); words.focus(); };
addEventListener("hashchange", () => { if (decodeURIComponent(location.hash.slice(1)) !== id) open(); });
addEventListener("keydown", (event) => { if (event.key === "Escape") menu(false); });
// A page that was asleep shows the list as it is now.
document.addEventListener("visibilitychange", () => { if (!document.hidden) list(); });

const grow = () => { words.rows = Math.min(8, words.value.split("\n").length); };
words.oninput = grow;
words.onkeydown = (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  by("composer").requestSubmit();
};
by("composer").onsubmit = async (event) => {
  event.preventDefault();
  const text = words.value.trim();
  if (!text) return;
  words.value = "";
  grow();
  log.scrollTop = log.scrollHeight;
  if (!await say({ role: "user", parts: [{ type: "text", text }] }) && !words.value) words.value = text;
};
stop.onclick = async () => {
  await ask(`chat/${encodeURIComponent(id)}/stop`, { method: "POST" }).catch(() => undefined);
  words.focus();
};
// A link has no token.
by("trace").onclick = async (event) => {
  if (!token()) return;
  event.preventDefault();
  const response = await ask(`chat/${encodeURIComponent(id)}/trace`);
  if (!response.ok) { problem.textContent = await response.text(); return; }
  const page = URL.createObjectURL(new Blob([await response.text()], { type: "text/html" }));
  make("a", { href: page, download: "trace.html" }).click();
  URL.revokeObjectURL(page);
};
open();
