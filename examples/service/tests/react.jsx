// A page with `useChat` of the AI SDK, in React, for this service. All that is not the look of a page is in `useService`.
import { Chat, useChat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';
import { useEffect, useEffectEvent, useState } from 'react';
import { createRoot } from 'react-dom/client';

// glue begins
const id = location.hash.slice(1);

// Sends each answer when it is given, and once: see the guide.
const sent = new Set();
const sendAutomaticallyWhen = ({ messages }) => {
  const { parts } = messages.findLast((message) => message.role === 'assistant') ?? { parts: [] };
  const asked = parts.flatMap((part) => (part.type === 'data-waiting' && part.data.id) || []);
  const answered = parts.map((part) => (part.state === 'approval-responded' ? part.approval.id : part.output?.form));
  const fresh = asked.filter((id) => answered.includes(id) && !sent.has(id));
  return fresh.map((id) => sent.add(id)).length > 0;
};
// After a request that has failed, an answer can be given again.
const onError = () => sent.clear();

// With `transport` as an option of `useChat` itself, a run that is resumed would have its beginning twice.
const session = new Chat({ id, transport: new DefaultChatTransport({ api: '/api/chat' }), sendAutomaticallyWhen, onError });

function useService() {
  const chat = useChat({ chat: session });
  // What the server has is what is shown, also what other tabs have said, and what was answered while the server was away.
  const load = useEffectEvent(async (signal) => {
    const response = await fetch(`/api/chat/${id}`, { signal }).catch(() => undefined);
    const { messages, busy } = response?.ok ? await response.json() : {};
    if (!messages || signal.aborted) return;
    chat.setMessages(messages);
    if (busy) chat.resumeStream();
  });
  useEffect(() => {
    if (chat.status !== 'ready' && chat.status !== 'error') return;
    const over = new AbortController();
    load(over.signal);
    const timer = setInterval(() => load(over.signal), 1000);
    return () => { clearInterval(timer); over.abort(); };
  }, [chat.status]);
  // `stop` of `useChat` only closes the connection.
  const stop = () => fetch(`/api/chat/${id}/stop`, { method: 'POST', headers: { 'content-type': 'application/json' } });
  return { ...chat, stop, answer: ({ id }, approved) => chat.addToolApprovalResponse({ id, approved }) };
}
// glue ends

function Part({ part, answer, disabled }) {
  if (part.type === 'text') return <p>{part.text}</p>;
  if (!part.toolCallId) return null;
  const asks = part.state === 'approval-requested';
  return (
    <p className="call">
      {part.type}: {part.state} {JSON.stringify(part.output ?? part.input)}
      {asks && <button className="allow" disabled={disabled} onClick={() => answer(part.approval, true)}>Allow</button>}
      {asks && <button className="deny" disabled={disabled} onClick={() => answer(part.approval, false)}>Deny</button>}
    </p>
  );
}

function Page() {
  const { messages, status, error, sendMessage, answer, stop } = useService();
  const [words, setWords] = useState('');
  const say = (event) => { event.preventDefault(); sendMessage({ text: words }); setWords(''); };
  return (
    <main>
      <div id="log">
        {messages.map((message) => (
          <section key={message.id}>{message.parts.map((part, at) => <Part key={at} part={part} answer={answer} disabled={status !== 'ready'} />)}</section>
        ))}
      </div>
      <p id="status">{status} {error?.message}</p>
      <form onSubmit={say}><input id="words" value={words} onChange={(event) => setWords(event.target.value)} /></form>
      <button id="stop" hidden={status === 'ready'} onClick={stop}>Stop</button>
    </main>
  );
}
createRoot(document.body.appendChild(document.createElement('div'))).render(<Page />);
