import { Button, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import {
  createWebhook,
  deleteWebhook,
  enableWebhook,
  notificationPreferences,
  sendTest,
  webhooks,
} from "@/api/notifications";
import type { Webhook } from "@/api/types";
import { Dialog } from "@/ui/Dialog";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { CopyableCode } from "@/ui/CopyableCode";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { NameInput } from "@/ui/NameInput";
import { QueryState } from "@/ui/QueryState";
import { notifyError } from "@/ui/notify";
import { reportTest } from "./testReport";
import css from "./ApiTokens.module.css";

/** Addresses that get what the user chose of the channel "Webhooks". */
export function Webhooks() {
  const list = useQuery(webhooks);
  const [adding, setAdding] = useState(false);
  return (
    <>
      <header className={css.head}>
        <div>
          <h3 className={css.title}>Webhooks</h3>
          <p className="dim">Your notifications as signed HTTP requests, or in a chat.</p>
        </div>
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setAdding(true)}
        >
          New webhook
        </Button>
      </header>
      <QueryState query={list} what="list of webhooks" rows={1}>
        {(rows) =>
          rows.length === 0 ? (
            <p className={css.none}>You have none.</p>
          ) : (
            <ul>
              {rows.map((row) => (
                <WebhookRow key={row.id} row={row} />
              ))}
            </ul>
          )
        }
      </QueryState>
      {adding ? <NewWebhook onClose={() => setAdding(false)} /> : null}
    </>
  );
}

function useRefresh() {
  const queries = useQueryClient();
  return async () => {
    await queries.invalidateQueries({ queryKey: webhooks.queryKey });
    await queries.invalidateQueries({ queryKey: notificationPreferences.queryKey });
  };
}

function WebhookRow({ row }: { row: Webhook }) {
  const refresh = useRefresh();
  const test = useMutation({
    mutationFn: () => sendTest("webhook", row.id),
    onSuccess: (delivery) => reportTest(delivery, `${row.name} accepted the test`),
    onError: (error) => notifyError(error, "No test was sent"),
    onSettled: refresh,
  });
  const enabling = useMutation({
    mutationFn: () => enableWebhook(row.id, !row.enabled),
    onError: (error) => notifyError(error, "The webhook was not changed"),
    onSettled: refresh,
  });
  const deletion = useMutation({
    mutationFn: () => deleteWebhook(row.id),
    onError: (error) => notifyError(error, "The webhook was not deleted"),
    onSettled: refresh,
  });
  return (
    <li className={css.row}>
      <Icon name="bolt" size={14} />
      <b className={css.name}>{row.name}</b>
      <span className="dim">
        {row.origin}
        {row.format === "slack" ? " · as a chat message" : null}
        {row.enabled ? null : ` · disabled${row.disabled_reason && `: ${row.disabled_reason}`}`}
      </span>
      <span className={css.end} />
      {row.enabled ? (
        <Button
          size="compact-sm"
          variant="subtle"
          loading={test.isPending}
          aria-label={`Send a test to ${row.name}`}
          onClick={() => test.mutate()}
        >
          Send a test
        </Button>
      ) : null}
      <Button
        size="compact-sm"
        variant="subtle"
        loading={enabling.isPending}
        aria-label={`${row.enabled ? "Disable" : "Enable"} ${row.name}`}
        onClick={() => enabling.mutate()}
      >
        {row.enabled ? "Disable" : "Enable"}
      </Button>
      <DeleteIcon
        label={`Delete ${row.name}`}
        busy={deletion.isPending}
        question={`Delete ${row.name}?`}
        explanation="What was not sent to it yet is not sent."
        verb="Delete"
        onConfirm={() => deletion.mutate()}
      />
    </li>
  );
}

const FORMATS = [
  { value: "skep", label: "JSON with all fields" },
  { value: "slack", label: "Chat message (Slack, Mattermost)" },
];

function NewWebhook({ onClose }: { onClose: () => void }) {
  const refresh = useRefresh();
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [format, setFormat] = useState<"skep" | "slack">("skep");
  const creation = useMutation({
    mutationFn: () => createWebhook({ name: name.trim(), url: url.trim(), format }),
    onSuccess: refresh,
  });
  if (creation.data) return <CreatedWebhook secret={creation.data.secret} onClose={onClose} />;
  return (
    <FormDialog open title="New webhook" verb="Create" mutation={creation} onClose={onClose}>
      <NameInput
        description="So that you know it again"
        placeholder="team-chat"
        value={name}
        onChange={setName}
      />
      <TextInput
        label="Address"
        description="It is public, and its path is never shown again"
        placeholder="https://hooks.example.org/…"
        required
        withAsterisk={false}
        value={url}
        onChange={(event) => setUrl(event.currentTarget.value)}
      />
      <Select
        label="Format"
        data={FORMATS}
        value={format}
        onChange={(value) => value && setFormat(value as "skep" | "slack")}
        allowDeselect={false}
      />
    </FormDialog>
  );
}

function CreatedWebhook({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <Dialog opened onClose={onClose} title="The secret of your webhook" size={560}>
      <div className={css.shown}>
        <p>
          Your receiver checks the signature of each request with it. Copy it now: it is shown only
          once.
        </p>
        <CopyableCode text={secret} label="Secret" />
        <div className={css.newTokenEnd}>
          <Button onClick={onClose}>Done</Button>
        </div>
      </div>
    </Dialog>
  );
}
