"""The official Python client of the Model Context Protocol against `turntree mcp`.

    official_mcp.py PROGRAM STORE WORKSPACE PAYLOAD [--time CALLS]

The client checks every structured answer against the schema of its tool.
"""

import asyncio
import json
import statistics
import sys
import time

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

PROGRAM, STORE, WORKSPACE, PAYLOAD = sys.argv[1:5]


def field(value, *names):
    """A field, as this version of the client calls it."""
    return next(getattr(value, name) for name in names if hasattr(value, name))


def is_error(result):
    return field(result, "is_error", "isError")


async def call(session, name, arguments):
    result = await session.call_tool(name, arguments)
    told = field(result, "structured_content", "structuredContent")
    assert not is_error(result), (name, result)
    assert json.loads(result.content[0].text) == told, name
    return told


async def use(session):
    info = await session.initialize()
    assert field(info, "server_info", "serverInfo").name == "turntree"
    tools = (await session.list_tools()).tools
    names = {tool.name for tool in tools}
    assert {"snapshot", "restore", "search"} <= names, names
    for tool in tools:
        assert field(tool, "output_schema", "outputSchema")["type"] == "object", tool

    before = await call(session, "snapshot", {"message": "by the official client", "pin": True})
    await call(session, "status", {})
    await call(session, "log", {"limit": 2})
    await call(session, "show", {})
    await call(session, "show", {"revision": "HEAD:scratchpad/note"})
    await call(session, "diff", {"old": "turn:1", "text": True})
    assert (await call(session, "search", {"pattern": "note 1"}))["total"] == 1
    await call(session, "branch", {"action": "fork", "name": "official"})
    await call(session, "merge", {"revision": "plan-b", "dry_run": True})
    await call(session, "resolve", {})
    await call(session, "compare", {})
    await call(session, "undo", {})
    await call(session, "tag", {"action": "add", "name": "official"})
    await call(session, "pin", {"action": "list"})
    await call(session, "export", {"format": "openai"})
    await call(session, "offload", {"text": "a line\n" * 10_000})
    await call(session, "spiral", {})
    await call(session, "lessons", {"action": "add", "tool": "sed", "mistake": "a", "correct": "b"})
    told = await call(session, "lessons", {"tool": "sed"})
    assert "sed" in told["injected"]["prompt"], told
    part = await session.call_tool("read_vfs", {"uri": PAYLOAD, "limit": 100})
    assert part.content[1].type == "resource_link" and str(part.content[1].uri) == PAYLOAD

    plan = await call(session, "restore", {"revision": "turn:1"})
    done = await call(session, "restore", {"revision": "turn:1", "plan_id": plan["plan_id"]})
    assert done["turn"] == before["turn"] + 2
    again = await session.call_tool("restore", {"revision": "turn:2", "plan_id": plan["plan_id"]})
    assert is_error(again) and json.loads(again.content[0].text)["error"] == "conflict"

    wrong = await session.call_tool("show", {"revision": "nowhere"})
    assert is_error(wrong) and json.loads(wrong.content[0].text)["error"] == "not-found"

    resources = (await session.list_resources()).resources
    assert PAYLOAD in {str(resource.uri) for resource in resources}
    for resource in resources:
        assert (await session.read_resource(resource.uri)).contents
    templates = await session.list_resource_templates()
    assert len(field(templates, "resource_templates", "resourceTemplates")) == 2

    answers = await asyncio.gather(*(call(session, "log", {"limit": 1}) for _ in range(20)))
    assert len(answers) == 20


async def measure(session, calls):
    await session.initialize()
    await session.list_tools()
    newest = "HEAD:agents/main/messages"
    for name, arguments in [
        ("status", {}),
        ("log", {"limit": 20}),
        ("show", {}),
        ("show", {"revision": newest, "limit": 20}),
        ("diff", {"old": "HEAD~1"}),
        ("branch", {}),
        ("spiral", {}),
        ("lessons", {}),
        ("merge", {"revision": "HEAD~1", "dry_run": True}),
        ("restore", {"revision": "HEAD~1", "only": ["conversation"]}),
        ("read_vfs", {"uri": PAYLOAD}),
        ("snapshot", {"message": "measured", "files": False}),
        ("search", {"pattern": "no such thing"}),
    ]:
        times = []
        for _ in range(calls):
            start = time.perf_counter()
            await call(session, name, arguments)
            times.append((time.perf_counter() - start) * 1000)
        times.sort()
        words = json.dumps(arguments)
        print(f"{name:<9} {statistics.median(times):7.2f} ms, p90 {times[calls * 9 // 10]:7.2f}  {words}")


async def main():
    server = ["--store", STORE, "mcp", "--workspace", WORKSPACE]
    async with stdio_client(StdioServerParameters(command=PROGRAM, args=server)) as (read, write):
        async with ClientSession(read, write) as session:
            if "--time" in sys.argv:
                await measure(session, int(sys.argv[-1]))
            else:
                await use(session)


asyncio.run(main())
