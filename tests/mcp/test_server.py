"""The tools over stdin and stdout, with the SDK's own client."""

import asyncio
import json
import os
import sys

import pytest
import tiny_corpus


def told(result) -> str:
    return "".join(part.text for part in result.content)


@pytest.mark.slow
def test_an_agent_lists_verifies_and_asks(tmp_path) -> None:
    from mcp import Client, StdioServerParameters  # takes two seconds, which only who runs this test needs to spend

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "kbench", "mcp", "--device", "cpu"], env=dict(os.environ), cwd=tmp_path
    )

    settings = "[tool.kbench.run]\nprocesses = 1\nmax_processes = 1\npairs = 4\nprecision = 0.9\n"
    (tmp_path / "pyproject.toml").write_text(settings)

    async def talk() -> None:
        async with Client(server) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {"list_problems", "verify", "run", "compare", "explain", "doctor"}
            listed = told(await client.call_tool("list_problems"))
            assert "group_norm" in listed
            assert len(listed) < 20_000
            question = {"problem": tiny_corpus.problem(), "level": "task"}
            wrong = told(
                await client.call_tool("verify", {**question, "solution": tiny_corpus.solution("return 3 * x")})
            )
            assert json.loads(wrong)["verdict"] == "wrong_value"
            assert "want" not in wrong
            right = json.loads(told(await client.call_tool("run", {**question, "solution": "eager"})))
            assert (right["correctness"], right["speedup"] > 0) == (True, True)
            assert "tolerance" in told(await client.call_tool("explain", {"code": "wrong_value"}))
            unknown = await client.call_tool("verify", {"problem": "grup_norm", "solution": "eager"})
            assert unknown.is_error
            assert "did you mean `group_norm`?" in told(unknown)
            assert (await client.call_tool("compare", {"old": "a", "new": "b"})).is_error

    asyncio.run(asyncio.wait_for(talk(), 300))
