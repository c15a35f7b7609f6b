import { folded, groupOf, groups } from "./data.mjs";
import { layout } from "./layout.mjs";
import { redraw } from "./drawing.mjs";
import { centre, fit, start } from "./moving.mjs";
import { select } from "./card.mjs";

// ---- folding ----------------------------------------------------------------------------------------------------
export function toggle(group) { folded.has(group) ? folded.delete(group) : folded.add(group); relayout(groups[group].head); }
export function relayout(anchor) {
  layout();
  const button = document.getElementById("fold");
  button.hidden = !groups.length; button.textContent = folded.size ? "Unfold all" : "Fold all";
  if (anchor !== undefined) { centre(anchor); select(anchor, folded.has(groupOf.get(anchor)) ? groupOf.get(anchor) : null); } else redraw();
}
document.getElementById("fold").addEventListener("click", () => {
  if (folded.size) folded.clear(); else groups.forEach((_, index) => folded.add(index));
  relayout(); start();
});
document.getElementById("fit").addEventListener("click", fit);
