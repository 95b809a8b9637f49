#!/usr/bin/env python3
"""Writes `table.rs` beside this file: prices and windows of models, from the package `genai-prices`.

    python3 harness/src/models/generate.py              fetches the package with pip
    python3 harness/src/models/generate.py PATH.whl     reads a wheel that is here already

The package is a list that its authors keep up to date (MIT, Pydantic Services Inc.). Nothing of it
is run: its data file is parsed, and only its literals and constructor calls are read.

What the rows mean:

- A price is what the list names for the day on which this runs. Price changes that the list
  announces for later days are left out; run this again after them.
- Where the price depends on the time of day, the row has the highest.
- Where long prompts cost more, the row has both prices.
- Left out: batch, priority and regional prices other than Bedrock's, cache writes that last longer
  than the default, web searches, and models whose main business is not text.
"""

import argparse
import ast
import datetime
import re
import subprocess
import sys
import tempfile
import zipfile
from decimal import Decimal
from pathlib import Path

# The list's name of a provider, and the variant of `ModelHost` in `find.rs`.
HOSTS = {
    "anthropic": "Anthropic",
    "openai": "OpenAi",
    "google": "Google",
    "x-ai": "XAi",
    "aws": "Bedrock",
    "deepseek": "DeepSeek",
    "mistral": "Mistral",
    "groq": "Groq",
}

# Models that make or take something else than text and pictures, and fine-tuned ones: what their
# tokens cost depends on more than the four prices of a row.
OTHER = re.compile(
    r"embed|image|audio|realtime|transcribe|tts|moderation|whisper|-live|omni|banana|voice|sonic"
    r"|robotics|computer-use|guard|ocr|voxtral|orpheus|titan|ft[:-]|:free|:extended"
    r"|^ada$|^babbage|^curie$|davinci"
)
# Open models that others serve under the same name.
OPEN = {"openai": re.compile(r"gpt-oss"), "google": re.compile(r"gemma|claude")}

PRICES = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok")


class Node:
    """A constructor call of the list: its name and its arguments."""

    def __init__(self, kind, arguments):
        self.kind, self.arguments = kind, arguments

    def get(self, name):
        return self.arguments.get(name)


def value(tree):
    """What an expression of the list stands for, without running anything."""
    match tree:
        case ast.Constant():
            return tree.value
        case ast.List() | ast.Tuple():
            return [value(item) for item in tree.elts]
        case ast.Dict():
            return {value(key): value(item) for key, item in zip(tree.keys, tree.values)}
        case ast.UnaryOp(op=ast.USub()):
            return -value(tree.operand)
        case ast.Attribute():
            return tree.attr
        case ast.Call():
            name = tree.func.attr if isinstance(tree.func, ast.Attribute) else tree.func.id
            arguments = [value(item) for item in tree.args]
            named = {item.arg: value(item.value) for item in tree.keywords}
            if name == "Decimal":
                return Decimal(arguments[0])
            if name == "date":
                return datetime.date(*arguments)
            return Node(name, named | dict(enumerate(arguments)))
    sys.exit(f"line {tree.lineno} of the list holds what this script does not know: {ast.dump(tree)}")


def providers(wheel):
    """The list, and the package's version."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        version = re.search(r"^Version: (.+)$", archive.read(metadata).decode(), re.M).group(1)
        source = archive.read("genai_prices/data.py").decode()
    for statement in ast.parse(source).body:
        target = getattr(statement, "target", None) or getattr(statement, "targets", [None])[0]
        if isinstance(target, ast.Name) and target.id == "providers":
            return value(statement.value), version
    sys.exit("the package holds no `providers`")


def prices_on(model, day):
    """The four prices, each with those for long prompts."""
    listed = model.get("prices")
    if isinstance(listed, Node):
        chosen = [listed]
    else:
        chosen = listed[:1]
        by_hour = []
        for entry in listed:
            constraint = entry.get("constraint") or entry.get(0)
            if constraint is None:
                chosen = [entry]
            elif constraint.kind == "StartDateConstraint":
                if constraint.get("start_date") <= day:
                    chosen = [entry]
            elif constraint.kind == "TimeOfDateConstraint":
                by_hour.append(entry)
            else:
                sys.exit(f"{model.get('id')}: the condition `{constraint.kind}` is not known")
        chosen = [entry.get("prices") for entry in chosen + by_hour]
    if any(price.get("input_mtok") is None or price.get("output_mtok") is None for price in chosen):
        return None
    base, longer, above = [], [], set()
    for key in PRICES:
        # Without a price of its own, a cached token costs what any token costs.
        found = [price.get(key) if price.get(key) is not None else price.get("input_mtok") for price in chosen]
        highest = max(found, key=lambda price: price.get("base") if isinstance(price, Node) else price)
        if not isinstance(highest, Node):
            base.append(highest)
            longer.append(highest)
            continue
        tiers = highest.get("tiers")
        if len(tiers) != 1:
            sys.exit(f"{model.get('id')}: {len(tiers)} prices for long prompts; a row holds one")
        base.append(highest.get("base"))
        longer.append(tiers[0].get("price"))
        above.add(tiers[0].get("start"))
    if len(above) > 1:
        sys.exit(f"{model.get('id')}: its prices change at different lengths of the prompt")
    return base, (above.pop(), longer) if above else None


def patterns(clause):
    """The names that a rule of the list speaks of."""
    if clause.kind in ("ClauseOr", "ClauseAnd"):
        for part in clause.get("or_") or clause.get("and_"):
            yield from patterns(part)
    elif clause.kind != "ClauseRegex":
        yield next(iter(clause.arguments.values()))


def bare(name):
    """The name without what `find.rs` takes for a version."""
    name = name.lower().rstrip("@-")
    name = re.sub(r"(-20\d\d)$", "", name)
    return re.sub(r"[-@](\d{8}|\d{4}-\d\d-\d\d)$", "", name)


def names_of(host, model):
    """The names of a model, the most common first."""
    if host == "aws":
        # `regional.` stands for any region and for none.
        name = model.get("id").lower().removeprefix("regional.")
        name = re.sub(r":\d+$", "", name)
        return [bare(re.sub(r"-v\d+$", "", name))]
    found = [model.get("id"), *patterns(model.get("match"))]
    found = [name.lower().rstrip("@-") for name in found]
    if host != "groq":
        found = [name for name in found if "/" not in name]
    names = []
    for name in found:
        # A version that the list names by itself only stays if nothing shorter stands for it.
        short = bare(name)
        if short in (bare(other) for other in found if other != name) and short in found:
            name = short
        if name not in names:
            names.append(name)
    return names


def number(price):
    text = format(price.normalize(), "f")
    return text if "." in text else text + ".0"


def price_of(prices):
    return f"price([{', '.join(number(price) for price in prices)}])"


def rows(listed, day):
    for host, variant in HOSTS.items():
        provider = next(provider for provider in listed if provider.get("id") == host)
        taken = {}
        for model in provider.get("models"):
            skip = OPEN.get(host)
            identity = model.get("id").lower()
            if OTHER.search(identity) or (skip and skip.search(identity)):
                continue
            prices = prices_on(model, day)
            if prices is None:
                continue
            names = [name for name in names_of(host, model) if not OTHER.search(name)]
            # The list is read from its top, so the first to claim a name has it.
            names = [name for name in names if name not in taken]
            taken.update(dict.fromkeys(names))
            if not names:
                continue
            base, longer = prices
            text = price_of(base)
            if longer:
                text += f".long({longer[0]:_}, {price_of(longer[1])})"
            window = model.get("context_window") or 0
            quoted = ", ".join(f'"{name}"' for name in names)
            yield f"    row({variant}, &[{quoted}], {window:_}, {text}),"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("wheel", nargs="?", type=Path, help="a wheel of genai-prices")
    parser.add_argument("--day", type=datetime.date.fromisoformat, default=datetime.date.today())
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = arguments.wheel
        if wheel is None:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
            subprocess.run([*command, "genai-prices"], check=True)
            wheel = next(Path(folder).glob("genai_prices-*.whl"))
        listed, version = providers(wheel)
    lines = list(rows(listed, arguments.day))
    text = f"""\
//! Prices and windows of {len(lines)} models. Generated by `generate.py`, which explains the rows. Do
//! not edit this file; run that one.
//!
//! From `genai-prices` {version}, Copyright (c) Pydantic Services Inc., MIT licence: see `LICENSE-genai-prices`.

use super::{{
    find::{{
        ModelHost::{{{', '.join(sorted(HOSTS.values()))}}},
        ModelRow, row,
    }},
    price::price,
}};

/// The date of the prices.
pub(super) const DATE: &str = "{arguments.day}";

/// The list that the prices come from.
pub(super) const SOURCE: &str = "genai-prices {version}";

/// The rows: names, context window, and the prices of a million tokens: request, cache read, cache
/// write, answer.
#[rustfmt::skip]
pub(super) static ROWS: &[ModelRow] = &[
"""
    text += "\n".join(lines) + "\n];\n"
    Path(__file__).with_name("table.rs").write_text(text)
    print(f"{len(lines)} models, {len(text)} bytes")


if __name__ == "__main__":
    main()
