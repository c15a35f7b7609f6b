"""From a file to a GraphDef."""
