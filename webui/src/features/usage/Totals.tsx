import type { Sums } from "@/api/usage";
import { formatHours, formatPercent } from "@/format/numbers";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { toHours } from "./days";

/** The sums of a span of time, in GPU-hours: what was allocated is used, idle or not measured. */
export function Totals({ sums }: { sums: Sums }) {
  const measured = sums.allocated_s === 0 || sums.used_s + sums.idle_s > 0;
  const parts: [string, number][] = [
    ["Allocated", sums.allocated_s],
    ["Guaranteed", sums.guaranteed_s],
    ["Borrowed", sums.borrowed_s],
  ];
  if (measured) parts.push(["Used", sums.used_s], ["Idle", sums.idle_s]);
  if (sums.unknown_s > 0) parts.push(["Not measured", sums.unknown_s]);
  return (
    <DescriptionList>
      {parts.map(([name, seconds]) => (
        <DescriptionItem key={name} name={name}>
          <span className="num">{formatHours(toHours(seconds))} GPU-h</span>
        </DescriptionItem>
      ))}
      {sums.utilization === null ? null : (
        <DescriptionItem name="Utilisation">
          <span className="num">{formatPercent(sums.utilization)}</span>
        </DescriptionItem>
      )}
    </DescriptionList>
  );
}
