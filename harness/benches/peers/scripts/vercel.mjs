// Vercel's AI SDK: `vercel.mjs WIRE ADDRESS`.

import { installed, serve } from "./measure.mjs";

// What it has to say of a model that it does not know is not an answer.
globalThis.AI_SDK_LOG_WARNINGS = false;

await serve(async (wire, address) => {
  const { streamText } = await installed("ai");
  const baseURL = `${address}/v1`;
  let model;
  if (wire === "anthropic") {
    const { createAnthropic } = await installed("@ai-sdk/anthropic");
    model = createAnthropic({ apiKey: "key", baseURL })("m");
  } else {
    const { createOpenAI } = await installed("@ai-sdk/openai");
    const provider = createOpenAI({ apiKey: "key", baseURL });
    model = wire === "responses" ? provider.responses("m") : provider.chat("m");
  }
  return async () => {
    let text = "";
    for await (const more of streamText({ model, prompt: "Go on." }).textStream) text += more;
    return text;
  };
});
