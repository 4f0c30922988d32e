"""Has HolmesGPT's own code load a file of examples/holmesgpt, and call the tools in it.

    holmes.py SOURCE FILE < CALLS > RESULTS

SOURCE is a checkout of HolmesGPT. The first line of RESULTS is what it made of the file.
For a toolset, CALLS has one JSON object in each line, {"tool": NAME, "parameters": {...}},
and RESULTS has one for each, with status, return_code and data. Python needs pydantic,
jinja2, pyyaml and requests; what else HolmesGPT imports has no part in this, and something
empty stands in for it where it is not installed.
"""

import importlib.abc
import importlib.machinery
import json
import os
import sys
import types
from unittest.mock import MagicMock

NO_PART = {
    "benedict", "cachetools", "httpx", "litellm", "mcp", "openai", "postgrest", "rich", "sentry_sdk", "supabase", "typer",
}


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in NO_PART:  # asked last: it is not installed
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        return module

    def exec_module(self, module):
        pass


def main():
    source, file = sys.argv[1:]
    sys.path.insert(0, source)
    sys.meta_path.append(StandIn())
    import yaml

    with open(file) as text:
        ((key, entries),) = yaml.safe_load(text).items()
    ((name, fields),) = entries.items()
    if key == "mcp_servers":
        load_server(source, name, fields)
    else:
        load_toolset(name, fields)


def load_server(source, name, fields):
    toolsets = types.ModuleType("holmes.plugins.toolsets")  # without all the others
    toolsets.__path__ = [os.path.join(source, "holmes", "plugins", "toolsets")]
    sys.modules[toolsets.__name__] = toolsets
    from holmes.plugins.toolsets.mcp.toolset_mcp import RemoteMCPToolset

    server = RemoteMCPToolset(**fields, name=name)
    server.check_prerequisites()  # reads the configuration, and would start it then
    config = server._mcp_config
    answer({"mode": config.mode.value, "command": config.command, "args": config.args})


def load_toolset(name, fields):
    from holmes.core.tools import YAMLToolset

    toolset = YAMLToolset(**fields, name=name)
    toolset.check_prerequisites()
    answer({"status": toolset.status.value, "data": toolset.error or ""})
    tools = {tool.name: tool for tool in toolset.tools}
    for line in sys.stdin:
        call = json.loads(line)
        result = tools[call["tool"]]._invoke(call["parameters"], None)
        answer({"status": result.status.value, "return_code": result.return_code, "data": result.data})


def answer(fields):
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()
