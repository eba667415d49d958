const ITEM = '[role="treeitem"]';

/** Where a key leads in a tree, as screen readers expect it: up and down over all that is shown,
 * right into a cell, left out of it. Null where it leads nowhere. `from` is an element's id. */
export function next(tree: Element, from: string | null, key: string): HTMLElement | null {
  const items = [...tree.querySelectorAll<HTMLElement>(ITEM)];
  const at = items.findIndex((item) => item.id === from);
  const here = items[at];
  switch (key) {
    case "ArrowDown":
      return items[at + 1] ?? null;
    case "ArrowUp":
      return items[Math.max(0, at - 1)] ?? null;
    case "ArrowRight":
      return here ? (here.querySelector<HTMLElement>(ITEM) ?? items[at + 1] ?? null) : first(items);
    case "ArrowLeft":
      return here?.parentElement?.closest<HTMLElement>(ITEM) ?? items[at - 1] ?? null;
    case "Home":
      return first(items);
    case "End":
      return items.at(-1) ?? null;
    default:
      return null;
  }
}

function first(items: HTMLElement[]): HTMLElement | null {
  return items[0] ?? null;
}
