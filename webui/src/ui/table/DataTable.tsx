import { useTable, type SortingState } from "@tanstack/react-table";
import { useLayoutEffect, useMemo, useState } from "react";
import { features, gridOf, toTableColumns, type Column } from "./columns";
import { Header } from "./Header";
import { PlainRows, VirtualRows } from "./Rows";
import css from "./table.module.css";

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowId: (row: T) => string;
  /** Sorting that somebody else does (the server); otherwise the table sorts its rows itself. */
  sorting?: SortingState;
  onSortingChange?: (sorting: SortingState) => void;
  /** Draw only what is on the screen; the table then scrolls in its own box. */
  virtual?: boolean;
  minWidth?: number;
}

/** Rows in columns: sortable, and smooth with thousands of them. */
export function DataTable<T extends object>(props: Props<T>) {
  const { label, rows, rowId, virtual = false } = props;
  // State and not a ref: the rows can be measured only once their box is there.
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  const { columns, minWidth } = useFitting(props, box);
  const [own, setOwn] = useState<SortingState>([]);
  const sorting = props.sorting ?? own;
  const table = useTable({
    features,
    columns: useMemo(() => toTableColumns(columns), [columns]),
    data: rows,
    getRowId: rowId,
    state: { sorting },
    onSortingChange: (change) => {
      const next = typeof change === "function" ? change(sorting) : change;
      (props.onSortingChange ?? setOwn)(next);
    },
    manualSorting: props.sorting !== undefined,
    enableSortingRemoval: props.sorting === undefined,
  });
  const shown = table.getRowModel().rows;
  const Rows = virtual ? VirtualRows : PlainRows;
  return (
    <div className={css.box} data-virtual={virtual || undefined} ref={setBox}>
      <div
        role="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        className={css.table}
        style={{ "--grid": gridOf(columns), minWidth } as React.CSSProperties}
      >
        <Header table={table} columns={columns} />
        <Rows rows={shown} columns={columns} box={box} />
      </div>
    </div>
  );
}

const NARROW_TABLE = 720;

/** The columns that there is room for in the table's own box: what lies beside it takes its share of
 * the screen. */
function useFitting<T>(
  { columns, minWidth = 0 }: Props<T>,
  box: HTMLDivElement | null,
): Pick<Props<T>, "columns" | "minWidth"> {
  const narrow = useWidth(box) < minWidth;
  const needed = useMemo(() => columns.filter((column) => !column.spare), [columns]);
  if (!narrow) return { columns, minWidth };
  return { columns: needed, minWidth: Math.min(minWidth, NARROW_TABLE) };
}

/** In pixels; without a box, or an unmeasured one, as wide as anything. */
function useWidth(box: HTMLDivElement | null): number {
  const [width, setWidth] = useState(Infinity);
  useLayoutEffect(() => {
    if (!box) return undefined;
    const measure = () => setWidth(box.clientWidth || Infinity);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    return () => observer.disconnect();
  }, [box]);
  return width;
}
