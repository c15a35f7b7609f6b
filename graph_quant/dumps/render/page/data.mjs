// The data of the page, and the elements that it fills.
export const data = JSON.parse(document.getElementById("data").textContent);
export const isDiff = data.sides.length > 1;
const element = id => document.getElementById(id);
export const page = {
  card: element("card"), search: element("search"), hits: element("hits"), steps: element("steps"), count: element("count"),
  panes: element("panes"), legend: element("legend"), colour: element("colour"), fold: element("fold"), shapes: element("shapes"),
};
export const FONTS = { title: "600 13px system-ui, sans-serif", label: "11px system-ui, sans-serif", detail: "10.5px ui-monospace, Menlo, Consolas, monospace" };
export const colours = {};
// The panes, the active one, the matches of the search, and the mode of colours.
export const state = { panes: [], active: null, hits: [], step: -1, colour: "kind" };
