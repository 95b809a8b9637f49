// A conversation, folded from the chunks of its runs. It knows no page.

export class Conversation {
  messages = [];
  busy = false;
  /** Whether a page with the trace exists. */
  trace = false;
  #open = new Map();

  /** Takes a chunk. Returns whether all messages are others now. */
  apply(chunk) {
    const { type } = chunk;
    if (type === "data-history") {
      this.messages = chunk.data.messages;
      this.trace = chunk.data.trace;
      this.busy = false;
      return true;
    }
    if (type === "start") return this.#start(chunk);
    const message = this.messages.at(-1);
    if (type === "data-run-started") {
      const { said } = chunk.data;
      if (said) this.messages.splice(-1, 0, { id: said.id, role: "user", parts: [{ type: "text", text: said.text }] });
      return true;
    }
    if (message?.role !== "assistant") return false;
    const call = message.parts.find((part) => part.toolCallId === chunk.toolCallId && part.toolCallId !== undefined);
    message.note = undefined;
    switch (type) {
      case "start-step": message.parts.push({ type: "step-start" }); break;
      case "reset-step": {
        const step = message.parts.findLastIndex((part) => part.type === "step-start");
        message.parts.length = step + 1;
        this.#open.clear();
        message.note = "The answer broke off and begins again.";
        return true;
      }
      case "text-start": case "reasoning-start": {
        const part = { type: type.slice(0, -6), text: "", state: "streaming" };
        this.#open.set(chunk.id, part);
        message.parts.push(part);
        break;
      }
      case "text-delta": case "reasoning-delta": {
        const part = this.#open.get(chunk.id);
        if (part) part.text += chunk.delta;
        break;
      }
      case "text-end": case "reasoning-end": {
        const part = this.#open.get(chunk.id);
        if (part) part.state = "done";
        break;
      }
      case "tool-input-start": this.#call(message, call, chunk, { state: "input-streaming", written: "" }); break;
      case "tool-input-delta": if (call) call.written = (call.written ?? "") + chunk.inputTextDelta; break;
      case "tool-input-available":
        // What the call waits for now, if it waits again, comes behind this chunk.
        message.parts = message.parts.filter((part) => part.type !== "data-waiting" || part.data.call !== chunk.toolCallId);
        this.#call(message, call, chunk, { state: "input-available", input: chunk.input, began: Date.now() });
        break;
      case "tool-approval-request": this.#call(message, call, chunk, { state: "approval-requested", approval: { id: chunk.approvalId } }); break;
      case "tool-output-available": this.#call(message, call, chunk, { state: "output-available", output: chunk.output }); break;
      case "tool-output-error": this.#call(message, call, chunk, { state: "output-error", errorText: chunk.errorText }); break;
      case "tool-output-denied": this.#call(message, call, chunk, { state: "output-denied" }); break;
      case "source-url": case "source-document": case "file": message.parts.push(chunk); break;
      case "finish":
        // A run that could not begin says nothing of what the message has cost.
        message.metadata = { ...message.metadata, ...chunk.messageMetadata };
        this.busy = false;
        break;
      case "error": message.error = chunk.errorText; break;
      default: if (type.startsWith("data-")) this.#data(message, chunk);
    }
    return false;
  }

  #start({ messageId }) {
    this.busy = true;
    this.#open.clear();
    if (messageId === undefined && this.messages.at(-1)?.role === "assistant") {
      const last = this.messages.at(-1);
      last.metadata = last.error = undefined;
      return false;
    }
    this.messages.push({ id: messageId ?? "answer", role: "assistant", parts: [] });
    return true;
  }

  #call(message, call, { toolCallId, toolName }, members) {
    if (!call) message.parts.push((call = { toolCallId, type: "tool-" + toolName }));
    Object.assign(call, members);
  }

  #data(message, chunk) {
    const { data } = chunk;
    switch (chunk.type) {
      case "data-retrying": message.note = `The model did not answer. Attempt ${data.attempt} of ${data.of} follows.`; return;
      case "data-falling-back": message.note = "Another model is asked."; return;
      case "data-compacting": message.note = "The conversation is summarized."; return;
      case "data-tool-progress": {
        const call = message.parts.find((part) => part.toolCallId === data.call);
        if (call) call.progress = data.message;
        return;
      }
      // The user has said something new, so a call of an earlier message waits no more.
      case "data-withdrawn":
        for (const part of this.messages.flatMap((it) => it.parts)) {
          const isOpen = ["input-streaming", "input-available", "approval-requested"].includes(part.state);
          if (!isOpen || !`${part.toolCallId}/`.startsWith(`${data.call}/`)) continue;
          // A call that was in doubt can have turned out well.
          const isDone = part.toolCallId === data.call && "output" in data;
          Object.assign(part, isDone ? { state: "output-available", output: data.output } : { state: "output-error", errorText: data.text });
        }
        return;
      case "data-of-agent": {
        const id = data.path.map((step) => step.call).join("/");
        const call = message.parts.find((part) => part.toolCallId === id);
        if (!call) return;
        call.below ??= "";
        if (data.event.type === "turn_started") call.before = call.below.length;
        if (data.event.type === "discarded") call.below = call.below.slice(0, call.before);
        if (data.event.type === "text") call.below += data.event.text;
        return;
      }
    }
    if (chunk.transient) return;
    const known = chunk.id !== undefined && message.parts.find((part) => part.type === chunk.type && part.id === chunk.id);
    if (known) known.data = data;
    else message.parts.push(chunk);
  }
}

/** What a call waits for and a person can answer, or nothing. */
export function waitOf(message, part) {
  if (!["input-available", "approval-requested"].includes(part.state)) return undefined;
  const waiting = message.parts.find((it) => it.type === "data-waiting" && it.data.call === part.toolCallId);
  return waiting?.data;
}

/** The tokens and the cost of all messages, with those of agents in calls. The cost is null if one of them is not known. */
export function sum(messages) {
  const all = { tokens: 0, cost: 0 };
  for (const { metadata } of messages.filter((it) => it.metadata)) {
    all.tokens += tokensOf(metadata.spent);
    all.cost = metadata.cost == null || all.cost === null ? null : all.cost + metadata.cost;
  }
  return all;
}

/** How many tokens are known to have been spent. */
export function tokensOf(spent) {
  return (spent?.usage?.input ?? 0) + (spent?.usage?.output ?? 0);
}

/** How a run has ended, in words; nothing if the model answered or a question is open. */
export function endOf({ outcome, reason } = {}) {
  if (outcome === "cancelled") return "Stopped.";
  if (!reason || outcome === "waiting") return undefined;
  return reason.replace(/^./, (it) => it.toUpperCase()) + ".";
}
