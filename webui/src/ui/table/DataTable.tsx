import { useMediaQuery } from "@mantine/hooks";
import { useTable, type SortingState } from "@tanstack/react-table";
import { useMemo, useState } from "react";
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
  const { columns, minWidth } = useFitting(props);
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
  // State and not a ref: the rows can be measured only once their box is there.
  const [box, setBox] = useState<HTMLDivElement | null>(null);
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

const NARROW = "(max-width: 1080px)";
const NARROW_TABLE = 720;

/** The columns that there is room for. */
function useFitting<T>({ columns, minWidth }: Props<T>): Pick<Props<T>, "columns" | "minWidth"> {
  const narrow = useMediaQuery(NARROW, false, { getInitialValueInEffect: false });
  const needed = useMemo(() => columns.filter((column) => !column.spare), [columns]);
  if (!narrow || needed.length === columns.length) return { columns, minWidth };
  return { columns: needed, minWidth: NARROW_TABLE };
}
