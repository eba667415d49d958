import { memo, useMemo } from "react";
import { Icon } from "@/ui/Icon";
import { GpuHexagon } from "./GpuHexagon";
import type { TreeCell } from "./treeCell";
import { hexagon, hull, layOutTile } from "./tileLayout";
import { stateLabel } from "./labels";
import css from "./CellTile.module.css";

interface Props {
  treeCell: TreeCell;
  /** The cell that the reader points at, when it is in this tile. */
  active: string | null;
  /** A job whose GPUs shall stand out. */
  litJob: string | null;
}

/** A node, or a part of one, with its GPUs as a honeycomb. */
export const CellTile = memo(function Tile({ treeCell, active, litJob }: Props) {
  const tile = useMemo(() => layOutTile(treeCell), [treeCell]);
  const spots = useMemo(() => new Map(tile.spots.map((spot) => [spot.cell, spot])), [tile]);
  const groups = useMemo(() => new Map(tile.groups.map((group) => [group.cell, group])), [tile]);
  const inside = treeCell.leaf ? [treeCell] : (treeCell.children ?? []);

  function shape(cell: TreeCell) {
    const spot = spots.get(cell);
    if (spot) {
      return (
        <GpuHexagon
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

  const alone = inside[0] === treeCell;
  return (
    <div
      role="presentation"
      data-cell={treeCell.id}
      data-active={(!alone && treeCell.id === active) || undefined}
      className={css.tile}
      data-lit={litJob ?? undefined}
    >
      <header className={css.head} aria-hidden="true">
        <span className={css.title} data-placed={treeCell.node !== null || undefined}>
          {treeCell.title}
        </span>
        <span className={css.number}>
          {treeCell.used}/{treeCell.gpus}
        </span>
      </header>
      {treeCell.pin ? (
        <span className={css.pin} title={`Pinned cell ${treeCell.pin}`} aria-hidden="true">
          <Icon name="pin" size={12} /> {treeCell.pin}
        </span>
      ) : null}
      <svg
        {...(alone ? { role: "group" } : treeItem(treeCell, active))}
        width={tile.width}
        height={tile.height}
        className={css.honeycomb}
      >
        <g role="group">{inside.map(shape)}</g>
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

/** What makes an element a place of the tree that the keyboard can reach. Its name says all that is
 * written on the cell; the writing stands beside it, hidden from screen readers. */
export function treeItem(treeCell: TreeCell, active: string | null) {
  return {
    role: "treeitem",
    id: domId(treeCell.id),
    "data-cell": treeCell.id,
    "data-active": treeCell.id === active || undefined,
    "aria-selected": treeCell.id === active,
    "aria-label": `${treeCell.pin ? `Pinned cell ${treeCell.pin}: ` : ""}${labelOf(treeCell)}: ${stateLabel(treeCell)}`,
    ...(!treeCell.leaf && { "aria-expanded": treeCell.children !== null }),
  };
}

function labelOf({ label: words, node }: TreeCell): string {
  return node ? `${words} on ${node}` : words;
}

/** Addresses have characters that ids of elements do not like. */
export function domId(address: string): string {
  return `cell-${encodeURIComponent(address)}`;
}
