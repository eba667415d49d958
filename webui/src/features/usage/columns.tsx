import type { Sums } from "@/api/usage";
import { formatHours, formatPercent } from "@/format/numbers";
import type { Column } from "@/ui/table/columns";
import { toHours } from "./days";

interface Measure {
  id: string;
  header: string;
  /** Seconds; null where nothing was measured. */
  value: (sums: Sums) => number | null;
  optional?: boolean | "phone";
}

function measured(part: "used_s" | "idle_s") {
  return (sums: Sums) => (sums.used_s + sums.idle_s > 0 ? sums[part] : null);
}

const MEASURES: Measure[] = [
  { id: "allocated", header: "Allocated", value: (sums) => sums.allocated_s },
  {
    id: "guaranteed",
    header: "Guaranteed",
    value: (sums) => sums.guaranteed_s,
    optional: true,
  },
  { id: "borrowed", header: "Borrowed", value: (sums) => sums.borrowed_s, optional: true },
  { id: "used", header: "Used", value: measured("used_s"), optional: "phone" },
  { id: "idle", header: "Idle", value: measured("idle_s"), optional: "phone" },
];

function Hours({ seconds }: { seconds: number | null }) {
  if (seconds === null) return <span className="dim">–</span>;
  return (
    <span className="num" title={`${formatHours(toHours(seconds))} GPU-hours`}>
      {formatHours(toHours(seconds))}
    </span>
  );
}

/** Columns of GPU-hours, and the share of the measured time that was used. */
export function sumColumns<T extends Sums>(): Column<T>[] {
  return [
    ...MEASURES.map(({ id, header, value, optional }): Column<T> => ({
      id,
      header,
      width: "minmax(84px, 110px)",
      align: "end",
      optional,
      cell: (row) => <Hours seconds={value(row)} />,
      sortValue: value,
    })),
    {
      id: "utilization",
      header: "Utilisation",
      width: "minmax(88px, 110px)",
      align: "end",
      cell: (row) => (
        <span className="num">
          {row.utilization === null ? "not measured" : formatPercent(row.utilization)}
        </span>
      ),
      sortValue: (row) => row.utilization,
    },
  ];
}
