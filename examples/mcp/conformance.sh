#!/usr/bin/env bash
# Runs the conformance suite of the Model Context Protocol against `mcp_conformance`, as a server and as a client:
#
#     HARNESS_MCP_CONFORMANCE=FOLDER examples/mcp/conformance.sh
#
# FOLDER is where `npm install @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22` was run. Without it this says so and
# ends. What is expected to fail stands in `conformance-misses-REVISION.yaml`, each with its reason; it fails if anything else
# does, or if something there passes by now.
set -euo pipefail
cd "$(dirname "$0")/../.."
suite=${HARNESS_MCP_CONFORMANCE:-}/node_modules/@modelcontextprotocol/conformance/dist/index.js
if [ ! -f "$suite" ]; then
    echo "skipped: HARNESS_MCP_CONFORMANCE names no folder with the conformance suite"
    exit 0
fi
node=$HARNESS_MCP_CONFORMANCE/node_modules/node/bin/node
[ -x "$node" ] || node=$(command -v node) || { echo "skipped: there is no node"; exit 0; }

cargo build --quiet -p harness-mcp-examples --bin mcp_conformance
program=${CARGO_TARGET_DIR:-target}/debug/mcp_conformance
port=${PORT:-18970}
"$program" server --listen "127.0.0.1:$port" &
server=$!
trap 'kill "$server"' EXIT
for _ in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.05
done

status=0
for revision in 2025-11-25 2026-07-28; do
    echo "== $revision"
    "$node" "$suite" server --url "http://127.0.0.1:$port/mcp" --requirements "$revision" \
        --expected-failures "examples/mcp/conformance-misses-$revision.yaml" | sed -n '/SUMMARY/,$p' || status=1
    echo "== $revision, the client"
    "$node" "$suite" client --command "$program client" --requirements "$revision" \
        --expected-failures "examples/mcp/conformance-misses-$revision.yaml" | sed -n '/SUMMARY/,$p' || status=1
done
exit "$status"
