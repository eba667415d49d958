import { Drawer } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { me } from "@/api/session";
import type { Gpu, Node } from "@/api/types";
import { jobOf } from "@/format/others";
import { megabytes } from "@/format/size";
import { Fact, Facts } from "@/ui/Facts";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { Ago } from "@/ui/Time";
import { NodeActions } from "./NodeActions";
import { NodeFaults } from "./NodeFaults";
import { NodeLabels } from "./NodeLabels";
import { LABELS } from "./racks";
import { nodeWord } from "./nodeWord";
import css from "./NodeDrawer.module.css";

export function NodeDrawer({ node, onClose }: { node: Node | null; onClose: () => void }) {
  const { data: user } = useQuery(me);
  return (
    <Drawer
      opened={node !== null}
      onClose={onClose}
      position="right"
      size={820}
      title={node?.name ?? ""}
    >
      {node ? (
        <div className={css.about}>
          {node.cordoned && node.cordon_reason ? (
            <p className={css.cordoned} role="status">
              Cordoned automatically: {node.cordon_reason}
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
          <NodeFacts node={node} />
          {user?.is_admin ? <NodeActions node={node} onRemoved={onClose} /> : null}
          {user?.is_admin ? <NodeLabels key={node.name} node={node} /> : null}
          <div className={css.gpus}>
            <DataTable
              label={`GPUs of ${node.name}`}
              columns={COLUMNS}
              rows={node.gpus}
              rowId={(gpu) => gpu.uuid}
              minWidth={720}
            />
          </div>
          <NodeFaults node={node} />
        </div>
      ) : null}
    </Drawer>
  );
}

function NodeFacts({ node }: { node: Node }) {
  return (
    <Facts>
      <Fact name="State">{nodeWord(node) ?? "online"}</Fact>
      <Fact name="Heartbeat">
        {node.last_heartbeat_at ? <Ago at={node.last_heartbeat_at} /> : "never"}
      </Fact>
      <Fact name="Address">{node.address || "–"}</Fact>
      <Fact name="CPUs">{node.cpus}</Fact>
      <Fact name="Memory">{megabytes(node.memory_mb)}</Fact>
      {node.disk_free_mb !== null && node.disk_total_mb !== null ? (
        <Fact name="Disk">
          {megabytes(node.disk_free_mb)} of {megabytes(node.disk_total_mb)} free
        </Fact>
      ) : null}
      <Fact name="Runtime">
        {node.runtime} <span className="dim">{node.engine_version}</span>
      </Fact>
      <Fact name="Driver">{node.driver_version || "–"}</Fact>
      {node.below_floor.map((below) => (
        <Fact key={below.component} name="Too old">
          {below.message}
        </Fact>
      ))}
      {LABELS.filter((label) => node.labels[label]).map((label) => (
        <Fact key={label} name={label === "rack" ? "Rack" : "Fabric"}>
          {node.labels[label]}
        </Fact>
      ))}
      <Fact name="Agent">{node.agent_version || "–"}</Fact>
    </Facts>
  );
}

const COLUMNS: Column<Gpu>[] = [
  {
    id: "index",
    header: "GPU",
    width: "36px",
    cell: (gpu) => <span className="num">{gpu.index}</span>,
    sort: (gpu) => gpu.index,
  },
  {
    id: "uuid",
    header: "UUID",
    width: "minmax(200px, 282px)",
    cell: (gpu) => (
      <span className={css.uuid} title={`${gpu.model}\n${gpu.uuid}`}>
        {gpu.uuid}
      </span>
    ),
  },
  { id: "use", header: "Used by", width: "minmax(150px, 1fr)", cell: (gpu) => <Use gpu={gpu} /> },
  {
    id: "utilization",
    header: "Busy",
    width: "60px",
    align: "end",
    cell: (gpu) => (gpu.utilization === null ? "–" : `${Math.round(gpu.utilization)}%`),
    sort: (gpu) => gpu.utilization,
  },
  {
    id: "memory",
    header: "Memory",
    width: "110px",
    align: "end",
    cell: (gpu) => (
      <span className="num">
        {gpu.memory_used_mb === null ? "" : `${megabytes(gpu.memory_used_mb)} / `}
        {megabytes(gpu.memory_mb)}
      </span>
    ),
    sort: (gpu) => gpu.memory_used_mb,
  },
];

/** The fault and the job: a GPU that failed under a job is both. */
function Use({ gpu }: { gpu: Gpu }) {
  const fault =
    gpu.health === "HEALTHY" ? null : (
      <span className={css.bad} title={gpu.problem}>
        {gpu.problem || gpu.health.toLowerCase()}
      </span>
    );
  if (fault && !gpu.used_by) return fault;
  return (
    <>
      <User gpu={gpu} />
      {fault ? <> · {fault}</> : null}
    </>
  );
}

function User({ gpu }: { gpu: Gpu }) {
  if (!gpu.used_by) return <span className="dim">free</span>;
  const { job_id, job_name, virtual_cluster } = gpu.used_by;
  if (!job_id) return <>{jobOf(virtual_cluster)}</>;
  return (
    <Link to="/jobs/$id" params={{ id: job_id }} className="link">
      {job_name} <span className="dim">{virtual_cluster}</span>
    </Link>
  );
}
