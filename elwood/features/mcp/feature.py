"""MCP servers, as the app sees them."""

from elwood.agent.feature import Feature, imported
from elwood.features.mcp.settings import McpServers

FEATURE = Feature(
    name="mcp", build=imported("elwood.features.mcp.parts", "build"), settings=(McpServers,)
)
