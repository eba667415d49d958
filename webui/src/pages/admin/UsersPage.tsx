import { Button, Switch } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { updateUser, users } from "@/api/admin";
import { me } from "@/api/session";
import type { User } from "@/api/types";
import { count } from "@/format/size";
import { Blank, Failure } from "@/ui/Blank";
import { Confirm } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { tellError } from "@/ui/notify";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { Ago } from "@/ui/Time";
import { NewUser } from "./NewUser";
import { UserActions } from "./UserActions";
import css from "./admin.module.css";

export function UsersPage() {
  const { data: user } = useQuery(me);
  const list = useQuery({ ...users, enabled: user?.is_admin ?? false });
  const [creating, setCreating] = useState(false);
  const columns = useMemo(() => userColumns(user?.username ?? ""), [user]);
  if (user && !user.is_admin) {
    return <Blank title="For administrators only">Users are made and changed by them.</Blank>;
  }
  return (
    <>
      <PageHeader title="Users" note={list.data ? count(list.data.length, "user") : null}>
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setCreating(true)}
        >
          New user
        </Button>
      </PageHeader>
      {list.isPending ? <SkeletonRows /> : null}
      {list.isError && !list.data ? (
        <Failure error={list.error} what="list of users" retry={() => void list.refetch()} />
      ) : null}
      {list.data ? (
        <div className={css.list}>
          <DataTable
            label="Users"
            columns={columns}
            rows={list.data}
            rowId={(each) => each.username}
            minWidth={800}
          />
        </div>
      ) : null}
      <NewUser open={creating} onClose={() => setCreating(false)} />
    </>
  );
}

function userColumns(self: string): Column<User>[] {
  return [
    {
      id: "username",
      header: "User name",
      width: "minmax(140px, 1fr)",
      cell: (user) => <b className={css.strong}>{user.username}</b>,
      sort: (user) => user.username,
    },
    {
      id: "email",
      header: "E-mail",
      width: "minmax(180px, 2fr)",
      cell: (user) => user.email || <span className="dim">–</span>,
      sort: (user) => user.email,
    },
    {
      id: "is_admin",
      header: "Administrator",
      width: "110px",
      cell: (user) => <Right user={user} right="is_admin" self={self} />,
      sort: (user) => String(user.is_admin),
    },
    {
      id: "is_active",
      header: "May log in",
      width: "110px",
      cell: (user) => <Right user={user} right="is_active" self={self} />,
      sort: (user) => String(user.is_active),
    },
    {
      id: "last_login",
      header: "Last login",
      width: "110px",
      cell: (user) =>
        user.last_login_at ? <Ago at={user.last_login_at} /> : <span className="dim">never</span>,
      sort: (user) => user.last_login_at ?? "",
    },
    {
      id: "actions",
      header: "",
      width: "70px",
      align: "end",
      cell: (user) => <UserActions user={user} self={self} />,
    },
  ];
}

interface RightProps {
  user: User;
  right: "is_admin" | "is_active";
  self: string;
}

function Right({ user, right, self }: RightProps) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (on: boolean) => updateUser(user.username, { [right]: on }),
    onError: (error) => tellError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: users.queryKey }),
  });
  const [asking, setAsking] = useState(false);
  const what = right === "is_admin" ? "is an administrator" : "may log in";
  return (
    <>
      <Switch
        aria-label={`${user.username} ${what}`}
        checked={change.isPending ? change.variables : user[right]}
        // Nobody locks himself out by a slip of the hand.
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
