"""The vendors' Python SDKs: `vendors.py WIRE ADDRESS`."""

import sys

from measure import serve

QUESTION = [{"role": "user", "content": "Go on."}]


def anthropic(address):
    from anthropic import Anthropic

    client = Anthropic(api_key="key", base_url=address)

    def answer():
        with client.messages.stream(max_tokens=64000, messages=QUESTION, model="m") as stream:
            return "".join(stream.text_stream)

    return answer


def responses(address):
    from openai import OpenAI

    client = OpenAI(api_key="key", base_url=f"{address}/v1")

    def answer():
        stream = client.responses.create(model="m", input="Go on.", stream=True)
        return "".join(e.delta for e in stream if e.type == "response.output_text.delta")

    return answer


def chat(address):
    from openai import OpenAI

    client = OpenAI(api_key="key", base_url=f"{address}/v1")

    def answer():
        stream = client.chat.completions.create(model="m", messages=QUESTION, stream=True)
        return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)

    return answer


serve({"anthropic": anthropic, "responses": responses, "chat": chat}[sys.argv[1]], sys.argv[2])
