import { Button, Checkbox, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { announce, announcements, deleteAnnouncement } from "@/api/cluster";
import { me } from "@/api/session";
import type { Announcement } from "@/api/types";
import { formatDateTime } from "@/format/time";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import { PageTable } from "@/ui/table/PageTable";
import type { Column } from "@/ui/table/columns";
import css from "./admin.module.css";

/** What every page shows above itself, until its time is over. */
export function AnnouncementsPage() {
  const { data: user } = useQuery(me);
  const list = useQuery(announcements);
  const [writing, setWriting] = useState(false);
  const columns = useMemo(() => announcementColumns(), []);
  if (user && !user.is_admin) {
    return (
      <EmptyState page title="For administrators only">
        What they announce stands above every page.
      </EmptyState>
    );
  }
  return (
    <>
      <PageHeader title="Announcements" note="Shown above every page, to all users">
        <ExportButton list="announcements" />
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setWriting(true)}
        >
          New announcement
        </Button>
      </PageHeader>
      <QueryState query={list} what="list of announcements">
        {(data) =>
          data.length === 0 ? (
            <EmptyState title="Nothing is announced">
              Show a message to all users, for example about a maintenance. Those who chose so get
              it by e-mail, too.
            </EmptyState>
          ) : (
            <PageTable
              filterLabel="Filter announcements"
              label="Announcements"
              columns={columns}
              rows={data}
              rowId={(each) => each.id}
              minWidth={560}
            />
          )
        }
      </QueryState>
      {writing ? <NewAnnouncement onClose={() => setWriting(false)} /> : null}
    </>
  );
}

function announcementColumns(): Column<Announcement>[] {
  return [
    {
      id: "message",
      header: "Message",
      width: "minmax(200px, 3fr)",
      cell: (row) => <span title={row.message}>{row.message}</span>,
      exportValue: (row) => row.message,
    },
    {
      id: "severity",
      header: "Severity",
      width: "100px",
      cell: (row) => row.severity,
      sortValue: (row) => row.severity,
    },
    {
      id: "created",
      header: "Published",
      width: "120px",
      optional: "phone",
      cell: (row) => <RelativeTime at={row.created_at} />,
      sortValue: (row) => row.created_at,
    },
    {
      id: "until",
      header: "Until",
      width: "minmax(120px, 1fr)",
      optional: "phone",
      cell: (row) => (row.expires_at ? formatDateTime(row.expires_at) : "it is deleted"),
      sortValue: (row) => row.expires_at,
    },
    {
      id: "actions",
      header: "Actions",
      hiddenHeader: true,
      width: "56px",
      align: "end",
      sticky: true,
      cell: (row) => <Delete row={row} />,
    },
  ];
}

function Delete({ row }: { row: Announcement }) {
  const queries = useQueryClient();
  const deletion = useMutation({
    mutationFn: () => deleteAnnouncement(row.id),
    onError: (error) => notifyError(error, "It was not deleted"),
    onSettled: () => queries.invalidateQueries({ queryKey: announcements.queryKey }),
  });
  return (
    <DeleteIcon
      label={`Delete ${row.message.slice(0, 40)}`}
      busy={deletion.isPending}
      question="Delete this announcement?"
      explanation="No page shows it any more."
      verb="Delete"
      onConfirm={() => deletion.mutate()}
    />
  );
}

function NewAnnouncement({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [message, setMessage] = useState("");
  const [warning, setWarning] = useState(false);
  const [until, setUntil] = useState("");
  const creation = useMutation({
    mutationFn: () =>
      announce({
        message: message.trim(),
        severity: warning ? "warning" : "info",
        ...(until && { expires_at: new Date(until).toISOString() }),
      }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: announcements.queryKey });
      onClose();
    },
  });
  return (
    <FormDialog open title="New announcement" verb="Announce" mutation={creation} onClose={onClose}>
      <Textarea
        label="Message"
        required
        withAsterisk={false}
        data-autofocus
        autosize
        minRows={3}
        maxLength={500}
        value={message}
        onChange={(event) => setMessage(event.currentTarget.value)}
      />
      <label className={css.until}>
        Shown until (empty: until it is deleted)
        <input
          type="datetime-local"
          value={until}
          onChange={(event) => setUntil(event.currentTarget.value)}
        />
      </label>
      <Checkbox
        label="A warning"
        checked={warning}
        onChange={(event) => setWarning(event.currentTarget.checked)}
      />
    </FormDialog>
  );
}
