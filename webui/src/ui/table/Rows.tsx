import type { Row } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, type CSSProperties } from "react";
import type { Column, features } from "./columns";
import css from "./table.module.css";

export const ROW_HEIGHT = 38;

interface Props<T extends object> {
  rows: Row<typeof features, T>[];
  columns: Column<T>[];
  box: HTMLDivElement | null;
}

export function PlainRows<T extends object>({ rows, columns }: Props<T>) {
  return (
    <div role="rowgroup">
      {rows.map((row, index) => (
        <TableRow key={row.id} row={row.original} columns={columns} index={index} />
      ))}
    </div>
  );
}

export function VirtualRows<T extends object>({ rows, columns, box }: Props<T>) {
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
