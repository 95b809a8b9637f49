// The real client of the AI SDK. Reads commands from the standard input, one JSON value, and prints what the client has.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const npm = process.argv[2];
async function load(name) {
  const folder = join(npm, 'node_modules', name);
  let entry = JSON.parse(readFileSync(join(folder, 'package.json'))).exports['.'];
  while (typeof entry === 'object') entry = entry.import ?? entry.default;
  return import(pathToFileURL(join(folder, entry)));
}
const command = JSON.parse(readFileSync(0));
const ai = await load('ai');

async function read(stream, message) {
  const chunks = [];
  let last, error;
  try {
    const seen = stream.pipeThrough(new TransformStream({
      transform(chunk, to) { chunks.push(structuredClone(chunk)); to.enqueue(chunk); },
    }));
    const options = { stream: seen, message, terminateOnError: true, onError: e => { error ??= String(e.message ?? e); } };
    for await (const state of ai.readUIMessageStream(options)) last = state;
  } catch (e) { error ??= String(e.message ?? e); }
  return { chunks, message: last ?? null, error: error ?? null };
}

function state(messages) {
  return {
    status: 'ready', error: undefined, messages,
    pushMessage(it) { this.messages = this.messages.concat(it); },
    popMessage() { this.messages = this.messages.slice(0, -1); },
    replaceMessage(at, it) { this.messages = this.messages.map((old, i) => (i === at ? structuredClone(it) : old)); },
    snapshot: it => structuredClone(it),
  };
}

class Chat extends ai.AbstractChat {
  constructor(options) { super({ ...options, state: state(options.messages ?? []) }); }
}

const version = JSON.parse(readFileSync(join(npm, 'node_modules/ai/package.json'))).version;

const acts = {
  // Streams as a server would send them.
  async streams({ streams }) {
    const out = [];
    for (const text of streams) {
      const fetch = async () => new Response(text, { headers: { 'content-type': 'text/event-stream' } });
      const transport = new ai.DefaultChatTransport({ fetch });
      out.push(await read(await transport.sendMessages({ chatId: 'c', messages: [], trigger: 'submit-message' })));
    }
    return { out, version };
  },
  // A conversation with a server: what the user says and answers, in order.
  async chat({ api, id, messages, steps, sends }) {
    let requests = 0;
    const data = [];
    const fetch = (...it) => { requests += 1; return globalThis.fetch(...it); };
    const chat = new Chat({
      id,
      messages,
      transport: new ai.DefaultChatTransport({ api, fetch }),
      sendAutomaticallyWhen: sends ? new Function(`${sends}\nreturn sendAutomaticallyWhen;`)() : ai.lastAssistantMessageIsCompleteWithApprovalResponses,
      onData: part => data.push(part),
      generateId: (n => () => `local-${n++}`)(1),
    });
    const settled = async () => {
      do { await new Promise(next => setTimeout(next, 20)); } while (!['ready', 'error'].includes(chat.status));
    };
    for (const step of steps) {
      const parts = () => chat.messages.flatMap(message => message.parts);
      if (step.say) await chat.sendMessage({ text: step.say });
      if (step.decide) {
        const asked = parts().filter(part => part.state === 'approval-requested').slice(step.skip ?? 0);
        const answers = step.decide.map((approved, at) => ({ id: asked[at].approval.id, approved, reason: step.reason }));
        for (const it of answers) await chat.addToolApprovalResponse(it);
      }
      if (step.answer !== undefined) {
        const waiting = parts().find(part => part.data?.for === 'answer').data;
        await chat.addToolOutput({ tool: waiting.tool, toolCallId: waiting.call, output: { form: waiting.id, answer: step.answer } });
        if (!sends) await chat.sendMessage();
      }
      if (step.resume) await chat.resumeStream();
      await settled();
    }
    return { messages: chat.messages, status: chat.status, error: chat.error ? String(chat.error.message) : null, requests, data, version };
  },
};
process.stdout.write(JSON.stringify(await acts[command.act](command)), () => process.exit(0));
