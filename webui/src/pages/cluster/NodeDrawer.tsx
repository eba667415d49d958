import { Drawer } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { nodeImages } from "@/api/admin";
import { node as nodeQuery, nodeFaults } from "@/api/cluster";
import { me } from "@/api/session";
import type { Gpu, Node, NodeFault } from "@/api/types";
import { hiddenJobLabel } from "@/format/names";
import { formatBytes, formatMegabytes } from "@/format/numbers";
import { usePoll } from "@/live/live";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { ErrorState } from "@/ui/EmptyState";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { SkeletonRows } from "@/ui/Skeleton";
import { RelativeTime } from "@/ui/Time";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { StaleNote } from "@/ui/StaleNote";
import { NodeActions } from "./NodeActions";
import { NodeLabels } from "./NodeLabels";
import { NodeChecks, NodeMaintenance } from "./NodeMaintenance";
import { nodeStatusLabel } from "./labels";
import { LABELS } from "./racks";
import css from "./NodeDrawer.module.css";

export function NodeDrawer({ name, onClose }: { name: string | null; onClose: () => void }) {
  const { data: user } = useQuery(me);
  const poll = usePoll(5000, 30_000);
  const query = useQuery({
    ...nodeQuery(name ?? ""),
    enabled: name !== null,
    refetchInterval: poll,
  });
  const node = query.data;
  return (
    <Drawer opened={name !== null} onClose={onClose} position="right" size={820} title={name ?? ""}>
      {name && query.isPending ? <SkeletonRows rows={8} /> : null}
      {name && query.isError && !node ? (
        <ErrorState error={query.error} what="node" retry={() => void query.refetch()} />
      ) : null}
      {name && node ? (
        <div className={css.about}>
          <StaleNote query={query} what="node" />
          {node.cordoned && node.cordon_reason ? (
            <p className={css.cordoned} role="status">
              {node.draining ? "Draining" : "Cordoned"}: {node.cordon_reason}
            </p>
          ) : null}
          {node.disk_low ? (
            <p className={css.cordoned} role="status">
              The disk that holds its containers is nearly full.
            </p>
          ) : null}
          {node.network_problem ? (
            <p className={css.cordoned} role="status">
              No task is started: {node.network_problem}
            </p>
          ) : null}
          {user?.is_admin
            ? node.warnings.map((warning) => (
                <p key={warning.code} className={css.cordoned} role="status">
                  {warning.message} {warning.action}
                </p>
              ))
            : null}
          <NodeFacts node={node} />
          {user?.is_admin ? <NodeActions node={node} onRemoved={onClose} /> : null}
          {user?.is_admin ? <NodeLabels key={node.name} node={node} /> : null}
          <div className={css.gpus}>
            <DataTable
              label={`GPUs of ${node.name}`}
              columns={COLUMNS}
              rows={node.gpus}
              rowId={(gpu) => gpu.uuid}
              file={{ rows: `gpus-of-${node.name}` }}
              minWidth={720}
            />
          </div>
          <NodeMaintenance node={node} canPlan={user?.is_admin ?? false} />
          <NodeChecks node={node} canCheck={user?.is_admin ?? false} />
          <NodeFaults node={node} />
          <NodeImages node={node} />
        </div>
      ) : null}
    </Drawer>
  );
}

const COMPONENTS = {
  cuda: "CUDA",
  vbios: "GPU firmware",
  infiniband: "InfiniBand firmware",
  kernel: "Kernel",
  runc: "runc",
  toolkit: "NVIDIA toolkit",
};

function NodeFacts({ node }: { node: Node }) {
  return (
    <DescriptionList>
      <DescriptionItem name="State">{nodeStatusLabel(node) ?? "online"}</DescriptionItem>
      <DescriptionItem name="Heartbeat">
        {node.last_heartbeat_at ? <RelativeTime at={node.last_heartbeat_at} /> : "never"}
      </DescriptionItem>
      <DescriptionItem name="Address">{node.address || "–"}</DescriptionItem>
      <DescriptionItem name="CPUs">{node.cpus}</DescriptionItem>
      <DescriptionItem name="Memory">{formatMegabytes(node.memory_mb)}</DescriptionItem>
      {node.disk_free_mb !== null && node.disk_total_mb !== null ? (
        <DescriptionItem name="Disk">
          {formatMegabytes(node.disk_free_mb)} of {formatMegabytes(node.disk_total_mb)} free
        </DescriptionItem>
      ) : null}
      <DescriptionItem name="Runtime">
        {node.runtime} <span className="dim">{node.engine_version}</span>
      </DescriptionItem>
      <DescriptionItem name="Driver">{node.driver_version || "–"}</DescriptionItem>
      {Object.entries(COMPONENTS)
        .filter(([component]) => node.components[component])
        .map(([component, title]) => (
          <DescriptionItem key={component} name={title}>
            {node.components[component]}
          </DescriptionItem>
        ))}
      {node.below_floor.map((below) => (
        <DescriptionItem key={below.component} name="Too old">
          {below.message}
        </DescriptionItem>
      ))}
      {LABELS.filter((label) => node.labels[label]).map((label) => (
        <DescriptionItem key={label} name={label === "rack" ? "Rack" : "Fabric"}>
          {node.labels[label]}
        </DescriptionItem>
      ))}
      <DescriptionItem name="Agent">{node.agent_version || "–"}</DescriptionItem>
    </DescriptionList>
  );
}

const COLUMNS: Column<Gpu>[] = [
  {
    id: "index",
    header: "GPU",
    width: "36px",
    cell: (gpu) => <span className="num">{gpu.index}</span>,
    sortValue: (gpu) => gpu.index,
  },
  {
    id: "use",
    header: "Used by",
    width: "minmax(110px, 1fr)",
    cell: (gpu) => <GpuUtilization gpu={gpu} />,
    exportValue: ({ used_by, health, problem }) =>
      used_by
        ? used_by.job_name || hiddenJobLabel(used_by.virtual_cluster)
        : health === "HEALTHY"
          ? null
          : problem || health.toLowerCase(),
  },
  {
    id: "utilization",
    header: "Busy",
    width: "60px",
    align: "end",
    cell: (gpu) => (gpu.utilization === null ? "–" : `${Math.round(gpu.utilization)}%`),
    sortValue: (gpu) => gpu.utilization,
  },
  {
    id: "memory",
    header: "Memory",
    width: "110px",
    align: "end",
    optional: "phone",
    cell: (gpu) => (
      <span className="num">
        {gpu.memory_used_mb === null ? "" : `${formatMegabytes(gpu.memory_used_mb)} / `}
        {formatMegabytes(gpu.memory_mb)}
      </span>
    ),
    sortValue: (gpu) => gpu.memory_used_mb,
  },
  {
    id: "uuid",
    header: "UUID",
    optional: "phone",
    width: "minmax(200px, 282px)",
    cell: (gpu) => (
      <span className={css.uuid} title={`${gpu.model}\n${gpu.uuid}`}>
        {gpu.uuid}
      </span>
    ),
    exportValue: (gpu) => gpu.uuid,
  },
];

/** The fault and the job: a GPU that failed under a job is both. */
function GpuUtilization({ gpu }: { gpu: Gpu }) {
  const fault =
    gpu.health === "HEALTHY" ? null : (
      <span className={css.bad} title={gpu.problem}>
        {gpu.problem || gpu.health.toLowerCase()}
      </span>
    );
  if (fault && !gpu.used_by) return fault;
  return (
    <>
      <GpuUser gpu={gpu} />
      {fault ? <> · {fault}</> : null}
    </>
  );
}

function GpuUser({ gpu }: { gpu: Gpu }) {
  if (!gpu.used_by) return <span className="dim">free</span>;
  const { job_id, job_name, virtual_cluster } = gpu.used_by;
  if (!job_id) return <>{hiddenJobLabel(virtual_cluster)}</>;
  return (
    <Link to="/jobs/$id" params={{ id: job_id }} className="link">
      {job_name} <span className="dim">{virtual_cluster}</span>
    </Link>
  );
}

const MOST_IMAGES = 50;

/** The images on the node that the reader may know of. */
function NodeImages({ node }: { node: Node }) {
  const query = useQuery(nodeImages(node.name));
  const { data: images = [] } = query;
  if (images.length === 0 && !isUnread(query)) return null;
  const tags = images.filter(({ reference, image }) => image || !reference.includes("@"));
  return (
    <section aria-label="Images on this node">
      <h3 className={css.title}>Images</h3>
      <ReadNote query={query} what="list of its images" />
      <ul className={css.images}>
        {tags.slice(0, MOST_IMAGES).map(({ reference, image, size }) => (
          <li key={reference}>
            <code className="clip" title={reference}>
              {reference}
            </code>
            {image ? <span className="dim">{image}</span> : null}
            <span className="num dim">{formatBytes(size)}</span>
          </li>
        ))}
        {tags.length > MOST_IMAGES ? (
          <li className="dim">and {tags.length - MOST_IMAGES} more</li>
        ) : null}
      </ul>
    </section>
  );
}

/** Failures of tasks that were this node's doing; nothing where there were none. */
export function NodeFaults({ node }: { node: Pick<Node, "name"> }) {
  const query = useQuery(nodeFaults(node.name));
  const { data: faults = [] } = query;
  if (faults.length === 0 && !isUnread(query)) return null;
  return (
    <section aria-label="Faults">
      <h3 className={css.title}>Jobs that failed by its fault</h3>
      <ReadNote query={query} what="list of its faults" />
      <ol className={css.faults}>
        {faults.map((fault) => (
          <li key={fault.id} className={css.fault}>
            <RelativeTime at={fault.at} />
            <div>
              <b>{fault.name}</b> <span className="dim num">{fault.code}</span>
              <FaultSource fault={fault} />
              {fault.evidence ? <pre className={css.evidence}>{fault.evidence}</pre> : null}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

function FaultSource({ fault }: { fault: NodeFault }) {
  const { job_id, job_name, virtual_cluster } = fault;
  if (!job_id) return <> · {hiddenJobLabel(virtual_cluster)}</>;
  return (
    <>
      {" "}
      ·{" "}
      <Link to="/jobs/$id" params={{ id: job_id }} className="link">
        {job_name}
      </Link>
    </>
  );
}
