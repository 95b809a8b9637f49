// The vendors' JavaScript SDKs: `vendors.mjs WIRE ADDRESS`.

import { installed, serve } from "./measure.mjs";

const messages = [{ role: "user", content: "Go on." }];

await serve(async (wire, address) => {
  if (wire === "anthropic") {
    const { default: Anthropic } = await installed("@anthropic-ai/sdk");
    const client = new Anthropic({ apiKey: "key", baseURL: address });
    return async () => {
      let text = "";
      const stream = client.messages.stream({ model: "m", max_tokens: 64000, messages });
      stream.on("text", (more) => (text += more));
      await stream.finalMessage();
      return text;
    };
  }
  const { default: OpenAI } = await installed("openai");
  const client = new OpenAI({ apiKey: "key", baseURL: `${address}/v1` });
  if (wire === "responses") {
    return async () => {
      let text = "";
      const stream = await client.responses.create({ model: "m", input: "Go on.", stream: true });
      for await (const event of stream) {
        if (event.type === "response.output_text.delta") text += event.delta;
      }
      return text;
    };
  }
  return async () => {
    let text = "";
    const stream = await client.chat.completions.create({ model: "m", messages, stream: true });
    for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
    return text;
  };
});
