"""Writers of graphs: text, pages and the formats of other tools."""
