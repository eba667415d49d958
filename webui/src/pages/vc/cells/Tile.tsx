import { memo, useMemo } from "react";
import { Icon } from "@/ui/Icon";
import { Gpu } from "./Gpu";
import type { Comb } from "./model";
import { hexagon, hull, layTile } from "./tile";
import { stateWords } from "./words";
import css from "./Tile.module.css";

interface Props {
  comb: Comb;
  /** The cell that the reader points at, when it is in this tile. */
  active: string | null;
  /** A job whose GPUs shall stand out. */
  litJob: string | null;
}

/** A node, or a part of one, with its GPUs as a comb. */
export const Tile = memo(function Tile({ comb, active, litJob }: Props) {
  const tile = useMemo(() => layTile(comb), [comb]);
  const spots = useMemo(() => new Map(tile.spots.map((spot) => [spot.cell, spot])), [tile]);
  const groups = useMemo(() => new Map(tile.groups.map((group) => [group.cell, group])), [tile]);
  const inside = comb.leaf ? [comb] : (comb.children ?? []);

  function shape(cell: Comb) {
    const spot = spots.get(cell);
    if (spot) {
      return (
        <Gpu
          key={cell.id}
          {...treeItem(cell, active)}
          state={cell.state}
          data-job={cell.job?.id}
          data-lit={(litJob !== null && cell.job?.id === litJob) || undefined}
          transform={at(spot)}
        />
      );
    }
    const group = groups.get(cell);
    return group ? (
      <g key={cell.id} {...treeItem(cell, active)} className={css.group}>
        <path
          className={css.hull}
          data-height={group.height}
          strokeWidth={2 * hull(group.height)}
          d={group.spots.map(hexagon).join("")}
        />
        <g role="group">{cell.children?.map(shape)}</g>
      </g>
    ) : null;
  }

  return (
    <div
      {...(inside[0] === comb ? { role: "presentation" } : treeItem(comb, active))}
      className={css.tile}
      data-lit={litJob ?? undefined}
    >
      <header className={css.head} aria-hidden="true">
        <span className={css.title} data-placed={comb.node !== null || undefined}>
          {comb.title}
        </span>
        <span className={css.number}>
          {comb.used}/{comb.gpus}
        </span>
      </header>
      {comb.pin ? (
        <span className={css.pin} title={`Pinned cell ${comb.pin}`} aria-hidden="true">
          <Icon name="pin" size={12} /> {comb.pin}
        </span>
      ) : null}
      <svg role="group" width={tile.width} height={tile.height} className={css.comb}>
        {inside.map(shape)}
        {tile.spots
          .filter((spot) => spot.cell === null)
          .map((spot) => (
            <path key={`${spot.x} ${spot.y}`} className={css.other} d={hexagon(spot)} />
          ))}
      </svg>
    </div>
  );
});

function at({ x, y }: { x: number; y: number }): string {
  return `translate(${x.toFixed(2)} ${y.toFixed(2)})`;
}

/** What makes an element a place of the tree that the keyboard can reach. */
export function treeItem(comb: Comb, active: string | null) {
  return {
    role: "treeitem",
    id: domId(comb.id),
    "data-cell": comb.id,
    "data-active": comb.id === active || undefined,
    "aria-selected": comb.id === active,
    "aria-label": `${comb.pin ? `Pinned cell ${comb.pin}: ` : ""}${nameOf(comb)}: ${stateWords(comb)}`,
    ...(!comb.leaf && { "aria-expanded": comb.children !== null }),
  };
}

function nameOf({ words, node }: Comb): string {
  return node ? `${words} on ${node}` : words;
}

/** Addresses have characters that ids of elements do not like. */
export function domId(address: string): string {
  return `cell-${encodeURIComponent(address)}`;
}
