import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState, type KeyboardEvent, type PointerEvent } from "react";
import { CellCard } from "./CellCard";
import { Closed } from "./Closed";
import type { Comb } from "./model";
import { domId, Tile, treeItem } from "./Tile";
import { next } from "./walk";
import css from "./CombTree.module.css";

interface Props {
  label: string;
  combs: Comb[];
  litJob: string | null;
  /** Asks for what is in a cell that came without it. */
  onLoad: (address: string) => void;
}

/** Nested cells down to the GPUs: one stop of the tab key, then the arrow keys. One listener
 * serves all of them. */
export function CombTree({ label, combs, litJob, onLoad }: Props) {
  const navigate = useNavigate();
  const byId = useMemo(() => indexOf(combs), [combs]);
  const [active, setActive] = useState<string | null>(null);
  const [pointed, setPointed] = useState<{ id: string; place: DOMRect } | null>(null);
  const current = active !== null && byId.has(active) ? active : null;
  const shown = pointed && byId.get(pointed.id);

  function point(element: HTMLElement | null) {
    const id = element?.dataset["cell"];
    setPointed(element && id ? { id, place: element.getBoundingClientRect() } : null);
  }

  function open(comb: Comb | undefined) {
    if (comb?.job) void navigate({ to: "/jobs/$id", params: { id: comb.job.id } });
    else if (comb && !comb.leaf && !comb.children) onLoad(comb.id);
  }

  function onKeyDown(event: KeyboardEvent<HTMLElement>) {
    if (event.target !== event.currentTarget) return;
    if (event.key === "Enter") return open(byId.get(current ?? ""));
    if (event.key === "Escape") return setPointed(null);
    const to = next(event.currentTarget, current && domId(current), event.key);
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
      {combs.map((comb) => (
        <Branch key={comb.id} comb={comb} active={current} litJob={litJob} />
      ))}
      {shown ? <CellCard comb={shown} place={pointed.place} /> : null}
    </div>
  );
}

interface BranchProps {
  comb: Comb;
  active: string | null;
  litJob: string | null;
}

function Branch({ comb, active, litJob }: BranchProps) {
  const ids = useMemo(() => indexOf([comb]), [comb]);
  const here = active !== null && ids.has(active) ? active : null;
  if (comb.leaf || (comb.children && !comb.aboveNodes)) {
    return <Tile comb={comb} active={here} litJob={litJob} />;
  }
  if (!comb.children) return <Closed comb={comb} active={here} />;
  return (
    <div {...treeItem(comb, here)} className={css.box}>
      <header className={css.head} aria-hidden="true">
        <span className={css.title}>{comb.title}</span>
        <span className="num">
          {comb.used}/{comb.gpus}
        </span>
      </header>
      <div role="group" className={css.inside}>
        {comb.children.map((child) => (
          <Branch key={child.id} comb={child} active={here} litJob={litJob} />
        ))}
      </div>
    </div>
  );
}

function indexOf(combs: Comb[], index = new Map<string, Comb>()): Map<string, Comb> {
  for (const comb of combs) {
    index.set(comb.id, comb);
    indexOf(comb.children ?? [], index);
  }
  return index;
}
