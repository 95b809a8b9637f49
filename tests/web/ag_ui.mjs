// The real client of AG-UI. Reads commands from the standard input, one JSON value, and prints what the client has.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const npm = process.argv[2];
const { HttpAgent } = await import(pathToFileURL(join(npm, 'node_modules/@ag-ui/client/dist/index.mjs')));
const command = JSON.parse(readFileSync(0));

async function run(agent, parameters) {
  const events = [];
  try {
    await agent.runAgent(parameters, { onEvent: ({ event }) => { events.push(event); } });
    return { events, error: null };
  } catch (error) {
    return { events, error: String(error.message ?? error) };
  }
}

const acts = {
  // Streams as a server would send them.
  async streams({ streams }) {
    const out = [];
    for (const text of streams) {
      const fetch = async () => new Response(text, { headers: { 'content-type': 'text/event-stream' } });
      const agent = new HttpAgent({ url: 'http://x/', threadId: 'c', fetch });
      const { events, error } = await run(agent, { runId: 'r' });
      out.push({ events, error, messages: agent.messages, interrupts: agent.pendingInterrupts });
    }
    return { out };
  },
  // A conversation with a server: what the user says and answers, in order.
  async chat({ url, steps }) {
    const agent = new HttpAgent({ url, threadId: 'c' });
    const errors = [];
    for (const [at, step] of steps.entries()) {
      if (step.say) agent.addMessage({ id: `u${at}`, role: 'user', content: step.say });
      const resume = step.resume?.map((entry, i) => ({ interruptId: agent.pendingInterrupts[i].id, ...entry }));
      const { error } = await run(agent, { runId: `r${at}`, ...(resume ? { resume } : {}) });
      if (error) errors.push(error);
    }
    return { messages: agent.messages, interrupts: agent.pendingInterrupts, errors };
  },
};
process.stdout.write(JSON.stringify(await acts[command.act](command)), () => process.exit(0));
