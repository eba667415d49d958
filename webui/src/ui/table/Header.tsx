import type { Table } from "@tanstack/react-table";
import { Icon } from "../Icon";
import type { Column, features } from "./columns";
import css from "./table.module.css";

interface Props<T extends object> {
  table: Pick<Table<typeof features, T>, "getColumn">;
  columns: Column<T>[];
}

const ARIA = { asc: "ascending", desc: "descending" } as const;

export function Header<T extends object>({ table, columns }: Props<T>) {
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
              {column.sort ? (
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
                <span className={column.quiet ? "sr-only" : undefined}>{column.header}</span>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}
