import { useDebouncedValue, useElementSize, useMergedRef } from "@mantine/hooks";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useMemo, useState, type CSSProperties } from "react";
import { useQuery } from "@tanstack/react-query";
import { nodes as wholeNodes } from "@/api/cluster";
import { gridUse, type GridNode } from "@/api/grid";
import { usePoll } from "@/live/live";
import type { Node } from "@/api/types";
import { pluralize } from "@/format/numbers";
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

/** As many as the server answers for at a time. */
const MOST_READ = 200;
const NO_USE: Record<string, (number | null)[]> = {};

// In pixels: the least width of a tile, the height of all but its cells, of one row of cells.
const DENSE = { tile: 286, head: 46, row: 33 };
const ROOMY = { tile: 380, head: 74, row: 50 };

interface Props {
  nodes: GridNode[];
  /** All nodes, filtered or not: they give the virtual clusters their colours. */
  all: GridNode[];
  colourBy: ColourBy;
  onOpen: (name: string) => void;
}

/** Nodes as tiles, as many in a row as fit, rack by rack; only rows on the screen are drawn. */
export function NodeGrid({ nodes, all, colourBy, onOpen }: Props) {
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  const { ref: measure, width } = useElementSize();
  const ref = useMergedRef(measure, setBox);
  const names = useMemo(() => virtualClustersOf(all), [all]);
  const available = width - 2 * PADDING + GAP;
  const size = all.length > FEW ? DENSE : ROOMY;
  const columns = Math.max(1, Math.floor(available / (size.tile + GAP)));
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
  const items = virtual.getVirtualItems();
  const drawn = items.flatMap(({ index }) => {
    const row = rows[index];
    return row?.kind === "nodes" ? row.nodes : [];
  });
  const use = useDrawnUse(drawn, colourBy === "use");
  const machines = useMachines(size === ROOMY);

  return (
    <div ref={ref} className={css.box} {...hover.listen} tabIndex={-1}>
      <div
        className={css.runway}
        style={{ height: virtual.getTotalSize() }}
        role="list"
        aria-label="Nodes"
      >
        {items.map((item) => {
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
                  use={use[node.name]}
                  machine={machines.get(node.name)}
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

/** How busy the GPUs of the nodes on the screen are; it is not requested for nodes outside it. */
function useDrawnUse(drawn: GridNode[], wanted: boolean) {
  const busy = drawn.filter((node) => node.state === "ONLINE" && node.gpus.some((gpu) => gpu.used));
  // Not for each row that scrolls by.
  const [list] = useDebouncedValue(names(busy), 250);
  const query = gridUse(list);
  const poll = usePoll(10_000, 30_000);
  const { data } = useQuery({
    ...query,
    enabled: wanted && list !== "",
    refetchInterval: poll,
  });
  return data ?? NO_USE;
}

function names(nodes: GridNode[]): string {
  const some = nodes.slice(0, MOST_READ);
  return some.map((node) => node.name).join(",");
}

/** What tiles say of machines where they are roomy; it changes seldom. */
function useMachines(wanted: boolean): Map<string, Node> {
  const { data } = useQuery({ ...wholeNodes, enabled: wanted, staleTime: 600_000 });
  return useMemo(() => new Map((data ?? []).map((node) => [node.name, node])), [data]);
}

interface TitleProps {
  row: Extract<GridRow, { kind: "title" }>;
  style: CSSProperties;
}

function Title({ row, style }: TitleProps) {
  const gpus = row.nodes.flatMap((node) => node.gpus);
  const used = gpus.filter((gpu) => gpu.used).length;
  return (
    <div role="listitem" className={css.rack} style={style}>
      <h2>{row.title}</h2>
      <span className="dim num">
        {pluralize(row.nodes.length, "node")}, {used} of {pluralize(gpus.length, "GPU")} in use
      </span>
    </div>
  );
}
