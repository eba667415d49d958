import { Button } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { SortingState } from "@tanstack/react-table";
import { type ReactNode, useMemo } from "react";
import { EmptyState } from "../EmptyState";
import { FilterInput } from "../FilterInput";
import { DataTable, type TableProps } from "./DataTable";
import type { TableFile } from "./TableExport";
import { compare, type Column } from "./columns";
import { matching } from "./matching";
import css from "./table.module.css";

interface Props<T> extends Omit<TableProps<T>, "file" | "sorting" | "onSortingChange"> {
  /** How it is downloaded where the page has no button for that. */
  file?: TableFile;
  /** What the filter is called: "Filter users". */
  filterLabel: string;
  /** Stands below the table, and scrolls with it. */
  children?: ReactNode;
}

/** The table that a page consists of, all rows of which are there: its filter and its order are in
 * the address (`q` and `sort`), so that a link shows the same rows. */
export function PageTable<T extends object>({
  filterLabel,
  children,
  columns,
  rows,
  file = "page",
  ...table
}: Props<T>) {
  const { q = "", sort = "" }: { q?: string; sort?: string } = useSearch({ strict: false });
  const navigate = useNavigate();
  const change = (part: { q?: string | undefined; sort?: string | undefined }) =>
    void navigate({ to: ".", search: (old: object) => ({ ...old, ...part }), replace: true });
  const sorting = useMemo(() => sortingOf(sort, columns), [sort, columns]);
  const shown = useMemo(
    () => sorted(matching(rows, columns, q), columns, sorting),
    [rows, columns, q, sorting],
  );
  return (
    <>
      <search className={css.filter} aria-label={filterLabel}>
        <FilterInput
          label={filterLabel}
          placeholder="Filter  ( / )"
          icon="search"
          value={q}
          onChange={(text) => change({ q: text || undefined })}
        />
        <span className={css.count} role="status">
          {q ? `${shown.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : ""}
        </span>
      </search>
      <div className={css.page}>
        {shown.length === 0 && q ? (
          <EmptyState
            title="Nothing matches the filter"
            action={
              <Button variant="default" onClick={() => change({ q: undefined })}>
                Clear the filter
              </Button>
            }
          >
            No row has “{q}” in one of its columns.
          </EmptyState>
        ) : (
          <DataTable
            {...table}
            columns={columns}
            rows={shown}
            file={file}
            sorting={sorting}
            onSortingChange={([by]) =>
              change({ sort: by ? (by.desc ? "-" : "") + by.id : undefined })
            }
          />
        )}
        {children}
      </div>
    </>
  );
}

/** `sort` of an address, "-size", as the table knows it; anything else is no order. */
function sortingOf<T>(sort: string, columns: Column<T>[]): SortingState {
  const desc = sort.startsWith("-");
  const id = desc ? sort.slice(1) : sort;
  const known = columns.some((column) => column.id === id && column.sortValue);
  return known ? [{ id, desc }] : [];
}

/** Rows without a value come last in both orders. */
function sorted<T>(rows: T[], columns: Column<T>[], [by]: SortingState): T[] {
  const value = columns.find(({ id }) => id === by?.id)?.sortValue;
  if (!value || !by) return rows;
  const missing = (row: T) => value(row) === null || value(row) === undefined;
  return rows.toSorted((a, b) => {
    if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b));
    return (by.desc ? -1 : 1) * compare(value(a), value(b));
  });
}
