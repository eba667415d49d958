import { type Row, type SortingState, type Table, useTable } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type CSSProperties,
  Fragment,
  memo,
  type ReactNode,
  useLayoutEffect,
  useMemo,
  useState,
} from "react";
import { Icon } from "../Icon";
import { TableExport, type TableFile } from "./TableExport";
import { type Column, features, gridOf, toTableColumns } from "./columns";
import css from "./table.module.css";

export interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowId: (row: T) => string;
  file: TableFile;
  /** Sorting by the server; without it the table sorts its rows itself. */
  sorting?: SortingState;
  onSortingChange?: (sorting: SortingState) => void;
  /** Draw only what is on the screen; the table then scrolls in its own box. */
  virtual?: boolean;
  minWidth?: number;
  /** What to draw below a row; null for nothing. Not for virtual tables. */
  detailOf?: (row: T) => ReactNode;
}

/** Rows in columns: sortable, and smooth with thousands of them. */
export function DataTable<T extends object>(props: TableProps<T>) {
  const { label, rows, rowId, virtual = false } = props;
  // State and not a ref: the rows can be measured only once their box is there.
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  const { columns, minWidth } = useFittingColumns(props, box);
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
    <>
      <div className={css.box} data-virtual={virtual || undefined} ref={setBox}>
        <div
          role="table"
          aria-label={label}
          aria-rowcount={rows.length + 1}
          className={css.table}
          style={{ "--grid": gridOf(columns), minWidth } as React.CSSProperties}
        >
          <Header table={table} columns={columns} />
          <Rows rows={shown} columns={columns} box={box} detailOf={props.detailOf} />
        </div>
      </div>
      <TableExport
        file={props.file}
        label={label}
        columns={props.columns}
        rows={shown.map((row) => row.original)}
      />
    </>
  );
}

const NARROW_TABLE = 720;
const PHONE_TABLE = 520;

/** Returns the columns that fit into the table's own box, which is narrower than the screen. */
function useFittingColumns<T>(
  { columns, minWidth = 0 }: TableProps<T>,
  box: HTMLDivElement | null,
): Pick<TableProps<T>, "columns" | "minWidth"> {
  const width = useWidth(box);
  const phone = width < PHONE_TABLE && columns.some((column) => column.optional === "phone");
  const needed = useMemo(
    () => columns.filter(({ optional }) => optional !== true && !(phone && optional)),
    [columns, phone],
  );
  if (width >= minWidth) return { columns, minWidth };
  if (phone) return { columns: needed, minWidth: 0 };
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

interface HeaderProps<T extends object> {
  table: Pick<Table<typeof features, T>, "getColumn">;
  columns: Column<T>[];
}

const ARIA = { asc: "ascending", desc: "descending" } as const;

function Header<T extends object>({ table, columns }: HeaderProps<T>) {
  return (
    <div role="rowgroup" className={css.head}>
      <div role="row" aria-rowindex={1} className={css.row}>
        {columns.map((column) => {
          const sorted = table.getColumn(column.id)?.getIsSorted() || undefined;
          return (
            <div
              key={column.id}
              role="columnheader"
              className={css.title}
              data-align={column.align}
              aria-sort={sorted && ARIA[sorted]}
            >
              {column.sortValue ? (
                <button
                  type="button"
                  className={css.sort}
                  data-sorted={sorted}
                  onClick={() => table.getColumn(column.id)?.toggleSorting()}
                >
                  {column.header}
                  <Icon name={sorted === "asc" ? "up" : "down"} size={12} />
                </button>
              ) : (
                <span className={column.hiddenHeader ? "sr-only" : undefined}>{column.header}</span>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

const ROW_HEIGHT = 38;

interface RowsProps<T extends object> {
  rows: Row<typeof features, T>[];
  columns: Column<T>[];
  box: HTMLDivElement | null;
  detailOf?: ((row: T) => ReactNode) | undefined;
}

function PlainRows<T extends object>({ rows, columns, detailOf }: RowsProps<T>) {
  return (
    <div role="rowgroup">
      {rows.map((row, index) => {
        const detail = detailOf?.(row.original) ?? null;
        return (
          <Fragment key={row.id}>
            <TableRow row={row.original} columns={columns} index={index} />
            {detail === null ? null : (
              <div role="row" className={css.detail}>
                <div role="cell" aria-colspan={columns.length}>
                  {detail}
                </div>
              </div>
            )}
          </Fragment>
        );
      })}
    </div>
  );
}

function VirtualRows<T extends object>({ rows, columns, box }: RowsProps<T>) {
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box,
    estimateSize: () => ROW_HEIGHT,
    getItemKey: (index) => rows[index]?.id ?? index,
    overscan: 12,
    scrollMargin: ROW_HEIGHT,
  });
  return (
    <div role="rowgroup" className={css.runway} style={{ height: virtual.getTotalSize() }}>
      {virtual.getVirtualItems().map((item) => {
        const row = rows[item.index];
        return row ? (
          <TableRow
            key={item.key}
            row={row.original}
            columns={columns}
            index={item.index}
            top={item.start - ROW_HEIGHT}
          />
        ) : null;
      })}
    </div>
  );
}

interface RowProps<T> {
  row: T;
  columns: Column<T>[];
  index: number;
  top?: number;
}

const TableRow = memo(function TableRow<T>({ row, columns, index, top }: RowProps<T>) {
  const style: CSSProperties | undefined =
    top === undefined ? undefined : { transform: `translateY(${top}px)` };
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className={css.row}
      data-floating={top !== undefined || undefined}
      style={style}
    >
      {columns.map((column) => (
        <div
          key={column.id}
          role="cell"
          className={css.cell}
          data-align={column.align}
          data-sticky={column.sticky}
        >
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
}) as <T>(props: RowProps<T>) => React.JSX.Element;
