"""Pydantic AI: `pydantic_ai_stream.py WIRE ADDRESS`."""

import asyncio
import sys

from measure import serve


def agent(wire, address):
    from pydantic_ai import Agent

    if wire == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return Agent(AnthropicModel("m", provider=AnthropicProvider(api_key="key", base_url=address)))

    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIResponsesModel if wire == "responses" else OpenAIChatModel
    return Agent(model("m", provider=OpenAIProvider(api_key="key", base_url=f"{address}/v1")))


def make(address):
    asked = agent(sys.argv[1], address)
    loop = asyncio.new_event_loop()

    async def read():
        async with asked.run_stream("Go on.") as result:
            return "".join([piece async for piece in result.stream_text(delta=True, debounce_by=None)])

    return lambda: loop.run_until_complete(read())


serve(make, sys.argv[2])
