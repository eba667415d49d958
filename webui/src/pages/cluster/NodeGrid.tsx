import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useMemo, useState, type CSSProperties } from "react";
import type { Node } from "@/api/types";
import { count } from "@/format/size";
import { virtualClustersOf, type ColourBy } from "./filter";
import { GpuCard, useGpuHover } from "./GpuCard";
import { NodeTile } from "./NodeTile";
import { gridRows, type GridRow } from "./racks";
import css from "./NodeGrid.module.css";

const GAP = 10;
const PADDING = 20;
const TITLE = 30;
const PER_ROW = 8;
/** Up to so many nodes the tiles are larger and say more. */
const FEW = 12;

// In pixels: the least width of a tile, the height of all but its cells, of one row of cells.
const DENSE = { tile: 286, head: 46, row: 33 };
const ROOMY = { tile: 380, head: 74, row: 50 };

interface Props {
  nodes: Node[];
  /** All nodes, filtered or not: they give the virtual clusters their colours. */
  all: Node[];
  colourBy: ColourBy;
  onOpen: (name: string) => void;
}

/** Nodes as tiles, as many in a row as fit, rack by rack; only rows on the screen are drawn. */
export function NodeGrid({ nodes, all, colourBy, onOpen }: Props) {
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  const { ref: measure, width } = useElementSize();
  const ref = useMergedRef(measure, setBox);
  const names = useMemo(() => virtualClustersOf(all), [all]);
  const room = width - 2 * PADDING + GAP;
  const size = all.length > FEW ? DENSE : ROOMY;
  const columns = Math.max(1, Math.floor(room / (size.tile + GAP)));
  const widest = nodes.reduce((most, node) => Math.max(most, node.gpus.length), 0);
  const height = size.head + Math.max(1, Math.ceil(widest / PER_ROW)) * size.row;
  const rows = useMemo(() => gridRows(nodes, columns), [nodes, columns]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box,
    estimateSize: (index) => (rows[index]?.kind === "title" ? TITLE : height + GAP),
    // Sizes are kept by key: lines that have another height now have another key.
    getItemKey: useCallback(
      (index: number) => `${rows[index]?.key} ${rows[index]?.kind} ${height}`,
      [rows, height],
    ),
    overscan: 3,
    paddingStart: PADDING - 4,
    paddingEnd: PADDING,
  });
  const hover = useGpuHover(all);

  return (
    <div ref={ref} className={css.box} {...hover.listen} tabIndex={-1}>
      <div
        className={css.runway}
        style={{ height: virtual.getTotalSize() }}
        role="list"
        aria-label="Nodes"
      >
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          const style = { transform: `translateY(${item.start}px)` };
          if (!row) return null;
          if (row.kind === "title") return <Title key={item.key} row={row} style={style} />;
          return (
            <div
              key={item.key}
              className={css.row}
              role="presentation"
              style={{
                ...style,
                height,
                gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`,
              }}
            >
              {row.nodes.map((node) => (
                <NodeTile
                  key={node.name}
                  node={node}
                  colourBy={colourBy}
                  names={names}
                  roomy={size === ROOMY}
                  onOpen={onOpen}
                />
              ))}
            </div>
          );
        })}
      </div>
      {hover.gpu ? <GpuCard {...hover.gpu} /> : null}
    </div>
  );
}

interface TitleProps {
  row: Extract<GridRow, { kind: "title" }>;
  style: CSSProperties;
}

function Title({ row, style }: TitleProps) {
  const gpus = row.nodes.flatMap((node) => node.gpus);
  const used = gpus.filter((gpu) => gpu.used_by).length;
  return (
    <div role="listitem" className={css.rack} style={style}>
      <h2>{row.title}</h2>
      <span className="dim num">
        {count(row.nodes.length, "node")}, {used} of {count(gpus.length, "GPU")} in use
      </span>
    </div>
  );
}
