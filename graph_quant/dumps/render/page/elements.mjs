// ---- elements; text of a dump only ever becomes text nodes --------------------------------------------------------
export function make(tag, content = null, properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  for (const part of [content].flat()) if (part !== undefined && part !== null) element.append(part);
  return element;
}
export const facts = pairs => make("dl", pairs.flatMap(([key, value]) => [make("dt", key), make("dd", value)]));
export const section = (heading, body) => body && (!Array.isArray(body) || body.length) ? [make("h3", heading), ...[body].flat()] : [];
export const line = (text, className = "") => make("p", text, { className: `line ${className}` });
export const quantity = (value, unit) => value === null || value === undefined ? `? ${unit}` : typeof value === "number" ? `${value.toLocaleString("en")} ${unit}` : `${value} ${unit}`;
