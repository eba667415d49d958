import { ActionIcon, MultiSelect, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { cancelPrefetch, prefetches, prefetchImage, prefetchNodes } from "@/api/admin";
import { grid } from "@/api/grid";
import type { Image, Prefetch } from "@/api/types";
import { virtualClusters } from "@/api/virtualClusters";
import { formatBytesOf, pluralize } from "@/format/numbers";
import { usePoll } from "@/live/live";
import { Dialog } from "@/ui/Dialog";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { notifyError, notifySuccess } from "@/ui/notify";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { isUnread, ReadNote, unreadText } from "@/ui/ReadNote";
import css from "./admin.module.css";

const EVERY_NODE = "";

/** Has nodes pull an image before jobs need it. */
export function PrefetchDialog({
  image,
  admin,
  onClose,
}: {
  image: Image;
  admin: boolean;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const { data: vcs } = useQuery(virtualClusters);
  const nodesQuery = useQuery({ ...grid, enabled: admin });
  const nodes = nodesQuery.data?.nodes;
  const own = (vcs ?? []).filter(
    ({ name, may_manage }) =>
      may_manage && (image.virtual_clusters.length === 0 || image.virtual_clusters.includes(name)),
  );
  const [vc, setVc] = useState<string | null>(null);
  const [chosen, setChosen] = useState<string[]>([]);
  const target = vc ?? (admin ? EVERY_NODE : (own[0]?.name ?? EVERY_NODE));
  const asking = useMutation({
    mutationFn: () =>
      prefetchImage(image.name, {
        hours: 24,
        ...(target === EVERY_NODE
          ? { nodes: chosen.length ? chosen : (nodes ?? []).map(({ name }) => name) }
          : { virtual_cluster: target }),
      }),
    onSuccess: (made) => {
      onClose();
      notifySuccess(`${pluralize(made.waiting, "node")} will pull ${image.name}`);
      return queries.invalidateQueries({ queryKey: prefetches.queryKey });
    },
  });
  return (
    <FormDialog
      open
      title={`Prefetch ${image.name}`}
      verb="Prefetch"
      mutation={asking}
      onClose={onClose}
    >
      <p className="dim">
        The nodes pull {image.reference} now, so that jobs start without waiting for it. What is not
        pulled in 24 hours is given up.
      </p>
      <Select
        label="To the nodes of"
        data={[
          ...(admin ? [{ value: EVERY_NODE, label: "the cluster" }] : []),
          ...own.map(({ name }) => ({ value: name, label: name })),
        ]}
        value={target}
        onChange={setVc}
        allowDeselect={false}
      />
      {target === EVERY_NODE ? (
        <MultiSelect
          label="Nodes"
          description="None chosen: all nodes"
          data={(nodes ?? []).map(({ name }) => name)}
          error={unreadText(nodesQuery, "list of nodes")}
          value={chosen}
          onChange={setChosen}
          searchable
          limit={50}
          clearable
        />
      ) : null}
    </FormDialog>
  );
}

/** What is being pulled in advance, and how it went; nothing where there was none of late. */
export function PrefetchList() {
  const list = useQuery({ ...prefetches, refetchInterval: usePoll(5000, 30_000) });
  const [shown, setShown] = useState<Prefetch | null>(null);
  if (isUnread(list)) return <ReadNote query={list} what="list of prefetches" wide />;
  if (!list.data?.length) return null;
  return (
    <section aria-label="Prefetches">
      <h2 className={css.heading}>Prefetches</h2>
      <ReadNote query={list} what="list of prefetches" wide />
      <DataTable
        label="Prefetches"
        columns={columns(setShown)}
        rows={list.data}
        rowId={(one) => one.id}
        file={{ list: "prefetches" }}
        minWidth={640}
      />
      {shown ? <PrefetchNodes prefetch={shown} onClose={() => setShown(null)} /> : null}
    </section>
  );
}

function columns(onShow: (one: Prefetch) => void): Column<Prefetch>[] {
  return [
    {
      id: "image",
      header: "Image",
      width: "minmax(120px, 1fr)",
      cell: (one) => (
        <button type="button" className={css.shown} onClick={() => onShow(one)}>
          {one.image}
        </button>
      ),
    },
    {
      id: "vc",
      header: "For",
      width: "minmax(100px, 1fr)",
      optional: "phone",
      cell: (one) => one.virtual_cluster || <span className="dim">nodes of an admin</span>,
    },
    { id: "progress", header: "Nodes", width: "minmax(200px, 2fr)", cell: progressText },
    {
      id: "by",
      header: "By",
      width: "minmax(140px, 1fr)",
      optional: "phone",
      cell: (one) => (
        <>
          {one.created_by}, <RelativeTime at={one.created_at} />
        </>
      ),
    },
    {
      id: "cancel",
      header: "Cancel",
      hiddenHeader: true,
      width: "40px",
      align: "end",
      cell: (one) => (one.waiting + one.pulling > 0 ? <CancelButton prefetch={one} /> : null),
    },
  ];
}

/** "3 done, 1 pulls, 4 wait". */
function progressText({ done, pulling, waiting, failed }: Prefetch) {
  const parts = [
    done > 0 && `${done} done`,
    pulling > 0 && `${pulling} ${pulling === 1 ? "pulls" : "pull"}`,
    waiting > 0 && `${waiting} ${waiting === 1 ? "waits" : "wait"}`,
  ].filter(Boolean);
  return (
    <span className="num">
      {parts.join(", ")}
      {failed > 0 ? (
        <span className={css.failed}>
          {parts.length > 0 ? ", " : ""}
          {failed} failed
        </span>
      ) : parts.length === 0 ? (
        "cancelled or expired"
      ) : null}
    </span>
  );
}

function CancelButton({ prefetch }: { prefetch: Prefetch }) {
  const queries = useQueryClient();
  const cancelling = useMutation({
    mutationFn: () => cancelPrefetch(prefetch.id),
    onSuccess: () => queries.invalidateQueries({ queryKey: prefetches.queryKey }),
    onError: (error) => notifyError(error, "The prefetch was not cancelled"),
  });
  return (
    <ActionIcon
      size="sm"
      aria-label={`Cancel the prefetch of ${prefetch.image}`}
      title="Give up what is not pulled yet"
      loading={cancelling.isPending}
      onClick={() => cancelling.mutate()}
    >
      <Icon name="stop" size={14} />
    </ActionIcon>
  );
}

/** How far each node is. */
function PrefetchNodes({ prefetch, onClose }: { prefetch: Prefetch; onClose: () => void }) {
  const list = useQuery({ ...prefetchNodes(prefetch.id), refetchInterval: usePoll(3000) });
  return (
    <Dialog opened onClose={onClose} title={`Prefetch of ${prefetch.image}`} size="lg">
      <QueryState query={list} what="list of nodes">
        {(rows) => (
          <ul className={css.people}>
            {rows.map((one) => (
              <li key={one.node}>
                <b>{one.node}</b>
                <span className={one.state === "FAILED" ? css.failed : "dim num"}>
                  {one.state === "PULLING"
                    ? `${one.percent} %, ${formatBytesOf(one.done_bytes, one.total_bytes)}`
                    : one.message || one.state.toLowerCase()}
                </span>
              </li>
            ))}
          </ul>
        )}
      </QueryState>
    </Dialog>
  );
}
