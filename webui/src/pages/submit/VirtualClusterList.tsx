import { useQuery } from "@tanstack/react-query";
import { cells } from "@/api/cells";
import { virtualClusters } from "@/api/virtualClusters";
import type { VirtualCluster } from "@/api/types";
import { shortModel } from "@/format/names";
import { useLiveQueries } from "@/live/live";
import { ownedGpusByModel, unavailableGpus } from "@/features/virtualClusters/ownedGpus";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { Section } from "@/ui/Section";
import { UsageBar } from "@/ui/UsageBar";
import css from "./VirtualClusterList.module.css";

/** What the visitor's virtual clusters own and how much of it is free now. */
export function VirtualClusterList() {
  const query = useQuery(virtualClusters);
  useLiveQueries("cluster", "", [virtualClusters.queryKey], 3000);
  const mine = query.data?.filter((vc) => vc.role !== null) ?? [];
  if (isUnread(query)) return <ReadNote query={query} what="list of virtual clusters" />;
  if (mine.length === 0) return null;
  return (
    <Section title="Your virtual clusters">
      <ReadNote query={query} what="list of virtual clusters" />
      <ul className={css.list}>
        {mine.map((vc) => (
          <VirtualClusterItem key={vc.name} vc={vc} />
        ))}
      </ul>
    </Section>
  );
}

function VirtualClusterItem({ vc }: { vc: VirtualCluster }) {
  const { data: shapes } = useQuery(cells);
  const models = Object.entries(ownedGpusByModel(vc, shapes));
  return (
    <li>
      <span className={css.name}>{vc.name}</span>
      {models.length === 0 ? <span className="dim">owns no GPUs</span> : null}
      {models.map(([model, owned]) => {
        const used = vc.used[model] ?? 0;
        const now = shapes?.gpus.find(
          (g) => g.virtual_cluster === vc.name && g.gpu_model === model,
        );
        return (
          <div key={model} className={css.model}>
            <span className="clip dim" title={model}>
              {shortModel(model)}
            </span>
            <span className="num">
              {now?.free ?? Math.max(0, owned - used)}{" "}
              <span className="dim">
                of {owned} free{now ? unavailableGpus(now) : ""}
              </span>
            </span>
            <UsageBar
              used={used}
              owned={owned}
              label={`${model} in use by ${vc.name}`}
              beyond="borrowed"
            />
          </div>
        );
      })}
    </li>
  );
}
