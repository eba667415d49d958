import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type PointerEvent, useMemo, useState } from "react";
import { capitalize } from "@/format/names";
import { Detail, HoverCard } from "@/ui/HoverCard";
import { CellTile, domId, treeItem } from "./CellTile";
import { stateLabel } from "./labels";
import type { TreeCell } from "./treeCell";
import css from "./CellTree.module.css";

interface Props {
  label: string;
  treeCells: TreeCell[];
  litJob: string | null;
  /** Asks for what is in a cell that came without it. */
  onLoad: (address: string) => void;
}

/** Nested cells down to the GPUs: one stop of the tab key, then the arrow keys. One listener
 * serves all of them. */
export function CellTree({ label, treeCells, litJob, onLoad }: Props) {
  const navigate = useNavigate();
  const byId = useMemo(() => indexOf(treeCells), [treeCells]);
  const [active, setActive] = useState<string | null>(null);
  const [pointed, setPointed] = useState<{ id: string; place: DOMRect } | null>(null);
  const current = active !== null && byId.has(active) ? active : null;
  const shown = pointed && byId.get(pointed.id);

  function point(element: HTMLElement | null) {
    const id = element?.dataset["cell"];
    setPointed(element && id ? { id, place: element.getBoundingClientRect() } : null);
  }

  function open(treeCell: TreeCell | undefined) {
    if (treeCell?.job) void navigate({ to: "/jobs/$id", params: { id: treeCell.job.id } });
    else if (treeCell && !treeCell.leaf && !treeCell.children) onLoad(treeCell.id);
  }

  function onKeyDown(event: KeyboardEvent<HTMLElement>) {
    if (event.target !== event.currentTarget) return;
    if (event.key === "Enter") return open(byId.get(current ?? ""));
    if (event.key === "Escape") return setPointed(null);
    const to = nextTreeItem(event.currentTarget, current && domId(current), event.key);
    if (!to) return;
    event.preventDefault();
    setActive(to.dataset["cell"] ?? null);
    to.scrollIntoView({ block: "nearest" });
    point(to);
  }

  return (
    <div
      role="tree"
      aria-label={label}
      aria-activedescendant={current === null ? undefined : domId(current)}
      tabIndex={0}
      className={css.tree}
      onKeyDown={onKeyDown}
      onBlur={() => setPointed(null)}
      onPointerOver={(event: PointerEvent) =>
        point((event.target as Element).closest<HTMLElement>("[data-cell]"))
      }
      onPointerLeave={() => setPointed(null)}
      onClick={(event) => {
        const cell = (event.target as Element).closest<HTMLElement>("[data-cell]");
        open(byId.get(cell?.dataset["cell"] ?? ""));
      }}
    >
      {treeCells.map((treeCell) => (
        <Branch key={treeCell.id} treeCell={treeCell} active={current} litJob={litJob} />
      ))}
      {shown ? <CellCard treeCell={shown} place={pointed.place} /> : null}
    </div>
  );
}

interface BranchProps {
  treeCell: TreeCell;
  active: string | null;
  litJob: string | null;
}

function Branch({ treeCell, active, litJob }: BranchProps) {
  const ids = useMemo(() => indexOf([treeCell]), [treeCell]);
  const here = active !== null && ids.has(active) ? active : null;
  const inside = `${domId(treeCell.id)}-inside`;
  if (treeCell.leaf || (treeCell.children && !treeCell.aboveNodes)) {
    return <CellTile treeCell={treeCell} active={here} litJob={litJob} />;
  }
  if (!treeCell.children) return <CollapsedCell treeCell={treeCell} active={here} />;
  return (
    <div
      role="presentation"
      data-cell={treeCell.id}
      data-active={treeCell.id === here || undefined}
      className={css.box}
    >
      <span {...treeItem(treeCell, here)} aria-owns={inside} className="sr-only" />
      <header className={css.head} aria-hidden="true">
        <span className={css.title}>{treeCell.title}</span>
        <span className="num">
          {treeCell.used}/{treeCell.gpus}
        </span>
      </header>
      <div role="group" id={inside} className={css.inside}>
        {treeCell.children.map((child) => (
          <Branch key={child.id} treeCell={child} active={here} litJob={litJob} />
        ))}
      </div>
    </div>
  );
}

function indexOf(
  treeCells: TreeCell[],
  index = new Map<string, TreeCell>(),
): Map<string, TreeCell> {
  for (const treeCell of treeCells) {
    index.set(treeCell.id, treeCell);
    indexOf(treeCell.children ?? [], index);
  }
  return index;
}

/** The item of the cell in which the cell of `item` lies. */
function above(items: HTMLElement[], item: HTMLElement | undefined): HTMLElement | undefined {
  const own = item?.dataset["cell"];
  let box = item?.closest<HTMLElement>("[data-cell]");
  while (box && box.dataset["cell"] === own) {
    box = box.parentElement?.closest<HTMLElement>("[data-cell]");
  }
  return items.find((each) => each.dataset["cell"] === box?.dataset["cell"]);
}

const ITEM = '[role="treeitem"]';

/** Where a key leads in a tree, as screen readers expect it: up and down over all that is shown,
 * right into a cell, left out of it. Null where it leads nowhere. `from` is an element's id. */
function nextTreeItem(tree: Element, from: string | null, key: string): HTMLElement | null {
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
      return above(items, here) ?? items[at - 1] ?? null;
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

/** A cell of a large virtual cluster in numbers; a click shows its GPUs. */
function CollapsedCell({ treeCell, active }: { treeCell: TreeCell; active: string | null }) {
  const { gpus, used, lent, bad } = treeCell;
  const unused = gpus - used - lent;
  // A bad GPU may be in use: those count as used, as far as the numbers allow.
  const idleBad = Math.min(bad, unused);
  const parts = { used, lent, idle: unused - idleBad, bad: idleBad };
  return (
    <div
      role="presentation"
      data-cell={treeCell.id}
      data-active={treeCell.id === active || undefined}
      className={css.closed}
    >
      <header className={css.closedHead} aria-hidden="true">
        <span className={css.closedTitle}>{treeCell.title}</span>
        <span className="num">
          {used}/{gpus}
        </span>
      </header>
      <span {...treeItem(treeCell, active)} className={css.bar}>
        {Object.entries(parts).map(([part, number]) =>
          number > 0 ? <span key={part} data-part={part} style={{ flexGrow: number }} /> : null,
        )}
      </span>
    </div>
  );
}

/** What is known of a cell: what it is, how it is used, where it lies. */
function CellCard({ treeCell, place }: { treeCell: TreeCell; place: DOMRect }) {
  const words = stateLabel(treeCell);
  return (
    <HoverCard place={place}>
      <strong>{capitalize(treeCell.label)}</strong>
      <span className={css.state} data-state={treeCell.bad > 0 ? "bad" : treeCell.state}>
        {capitalize(words)}
      </span>
      {treeCell.leaf || treeCell.children ? null : <Detail name="GPUs">click to see each</Detail>}
      <Detail name="Job">{treeCell.job ? `${treeCell.job.name} (click to open)` : null}</Detail>
      <Detail name="Pinned">{treeCell.pin}</Detail>
      <Detail name="Node">{treeCell.node ?? "gets its place when it is used"}</Detail>
      <Detail name="Place">
        {treeCell.place ? <span className={css.address}>{treeCell.place}</span> : null}
      </Detail>
      <Detail name="Cell">
        <span className={css.address}>{treeCell.id}</span>
      </Detail>
    </HoverCard>
  );
}
