import { ActionIcon, Button, Switch } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { deleteUser, resetLink, resetMfa, updateUser, users } from "@/api/admin";
import { me } from "@/api/session";
import type { User } from "@/api/types";
import { pluralize } from "@/format/numbers";
import { Dialog } from "@/ui/Dialog";
import { Confirm, DeleteIcon } from "@/ui/ConfirmButton";
import { CopyableCode } from "@/ui/CopyableCode";
import { EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { notifyError, notifySuccess } from "@/ui/notify";
import { PageTable } from "@/ui/table/PageTable";
import type { Column } from "@/ui/table/columns";
import { ImportUsersDialog } from "./ImportUsers";
import { NewUserDialog } from "./NewUser";
import css from "./admin.module.css";

export function UsersPage() {
  const { data: user } = useQuery(me);
  const list = useQuery({ ...users, enabled: user?.is_admin ?? false });
  const [creating, setCreating] = useState(false);
  const [importing, setImporting] = useState(false);
  const columns = useMemo(() => userColumns(user?.username ?? ""), [user]);
  if (user && !user.is_admin) {
    return (
      <EmptyState page title="For administrators only">
        Users are made and changed by them.
      </EmptyState>
    );
  }
  return (
    <>
      <PageHeader title="Users" note={list.data ? pluralize(list.data.length, "user") : null}>
        <ExportButton list="users" />
        <Button
          variant="default"
          leftSection={<Icon name="upload" size={14} />}
          onClick={() => setImporting(true)}
        >
          Import
        </Button>
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setCreating(true)}
        >
          New user
        </Button>
      </PageHeader>
      <QueryState query={list} what="list of users">
        {(data) => (
          <PageTable
            filterLabel="Filter users"
            label="Users"
            columns={columns}
            rows={data}
            rowId={(each) => each.username}
            minWidth={800}
            virtual={data.length > 100}
          />
        )}
      </QueryState>
      <NewUserDialog open={creating} onClose={() => setCreating(false)} />
      <ImportUsersDialog open={importing} onClose={() => setImporting(false)} />
    </>
  );
}

function userColumns(self: string): Column<User>[] {
  return [
    {
      id: "username",
      header: "User name",
      width: "minmax(80px, 1fr)",
      cell: (user) => <b className={css.strong}>{user.username}</b>,
      sortValue: (user) => user.username,
    },
    {
      id: "email",
      header: "E-mail",
      width: "minmax(180px, 2fr)",
      optional: "phone",
      cell: (user) => user.email || <span className="dim">–</span>,
      sortValue: (user) => user.email,
    },
    {
      id: "is_admin",
      header: "Administrator",
      width: "104px",
      cell: (user) => <PermissionSwitch user={user} right="is_admin" self={self} />,
      sortValue: (user) => String(user.is_admin),
    },
    {
      id: "is_active",
      header: "Can log in",
      width: "80px",
      cell: (user) => <PermissionSwitch user={user} right="is_active" self={self} />,
      sortValue: (user) => String(user.is_active),
    },
    {
      id: "mfa",
      header: "MFA",
      width: "80px",
      optional: "phone",
      cell: (user) => <MfaReset user={user} />,
      sortValue: (user) => String(user.mfa),
    },
    {
      id: "last_login",
      header: "Last login",
      width: "110px",
      optional: "phone",
      cell: (user) =>
        user.last_login_at ? (
          <RelativeTime at={user.last_login_at} />
        ) : (
          <span className="dim">never</span>
        ),
      sortValue: (user) => user.last_login_at ?? "",
    },
    {
      id: "actions",
      header: "Change",
      hiddenHeader: true,
      width: "70px",
      align: "end",
      cell: (user) => <UserActions user={user} self={self} />,
    },
  ];
}

interface PermissionSwitchProps {
  user: User;
  right: "is_admin" | "is_active";
  self: string;
}

function PermissionSwitch({ user, right, self }: PermissionSwitchProps) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (on: boolean) => updateUser(user.username, { [right]: on }),
    onError: (error) => notifyError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: users.queryKey }),
  });
  const [asking, setAsking] = useState(false);
  const what = right === "is_admin" ? "is an administrator" : "may log in";
  return (
    <>
      <Switch
        classNames={{ track: css.track }}
        aria-label={`${user.username} ${what}`}
        checked={change.isPending ? change.variables : user[right]}
        // Administrators cannot lock themselves out by accident.
        disabled={user.username === self}
        onChange={({ currentTarget: { checked } }) =>
          right === "is_active" && !checked ? setAsking(true) : change.mutate(checked)
        }
      />
      <Confirm
        open={asking}
        question={`Deactivate ${user.username}?`}
        explanation="Sessions and tokens end at once, and the user's jobs are stopped."
        verb="Deactivate"
        onConfirm={() => change.mutate(false)}
        onClose={() => setAsking(false)}
      />
    </>
  );
}

/** Whether logging in needs a code, and the help for a user who lost the app. */
function MfaReset({ user }: { user: User }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const reset = useMutation({
    mutationFn: () => resetMfa(user.username),
    onSuccess: () => notifySuccess(`${user.username} logs in by password alone now`),
    onError: (error) => notifyError(error, "MFA was not reset"),
    onSettled: () => queries.invalidateQueries({ queryKey: users.queryKey }),
  });
  if (!user.mfa) return <span className="dim">off</span>;
  return (
    <>
      <Button
        variant="default"
        size="compact-xs"
        aria-label={`Reset the MFA of ${user.username}`}
        loading={reset.isPending}
        onClick={() => setAsking(true)}
      >
        Reset
      </Button>
      <Confirm
        open={asking}
        question={`Reset the MFA of ${user.username}?`}
        explanation="The password alone logs the user in until a new app is set up. The user's sessions end."
        verb="Reset"
        onConfirm={() => reset.mutate()}
        onClose={() => setAsking(false)}
      />
    </>
  );
}

/** The actions on a user: a link to set a new password, and the deletion of the account. */
function UserActions({ user, self }: { user: User; self: string }) {
  const queries = useQueryClient();
  const link = useMutation({
    mutationFn: () => resetLink(user.username),
    onError: (error) => notifyError(error),
  });
  const deletion = useMutation({
    mutationFn: () => deleteUser(user.username),
    onSuccess: () => notifySuccess(`${user.username} is deleted`),
    onError: (error) => notifyError(error, "The user was not deleted"),
    onSettled: () => queries.invalidateQueries({ queryKey: users.queryKey }),
  });
  return (
    <span className={css.actions}>
      <ActionIcon
        size="sm"
        aria-label={`Reset the password of ${user.username}`}
        disabled={!user.is_active}
        loading={link.isPending}
        onClick={() => link.mutate()}
      >
        <Icon name="key" size={14} />
      </ActionIcon>
      <DeleteIcon
        size="sm"
        label={`Delete ${user.username}`}
        disabled={user.username === self}
        question={`Delete ${user.username}?`}
        explanation="The account ends for good and its jobs are stopped. What is left of them stays, without a name."
        verb="Delete"
        onConfirm={() => deletion.mutate()}
      />
      <Dialog
        opened={link.data !== undefined}
        onClose={() => link.reset()}
        title={`A new password for ${user.username}`}
        size={560}
      >
        <p>
          Send this address to {user.username}. It works once, within a day, and ends with the next
          login. The present password works until then.
        </p>
        <div className={css.link}>
          <CopyableCode text={link.data?.url ?? ""} label="Link" />
        </div>
        <Button mt={14} onClick={() => link.reset()}>
          Done
        </Button>
      </Dialog>
    </span>
  );
}
