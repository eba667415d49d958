import { ActionIcon, Button, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { users } from "@/api/admin";
import { isApiError } from "@/api/errors";
import {
  addGroupMember,
  createGroup,
  deleteGroup,
  groupMembers,
  groups,
  removeGroupMember,
  updateGroup,
} from "@/api/groups";
import { me } from "@/api/session";
import type { Group, GroupBody } from "@/api/types";
import { pluralize } from "@/format/numbers";
import { Dialog } from "@/ui/Dialog";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { notifyError } from "@/ui/notify";
import { PageTable } from "@/ui/table/PageTable";
import type { Column } from "@/ui/table/columns";
import { unreadText } from "@/ui/ReadNote";
import css from "./admin.module.css";

/** Which dialog is open, and for which group. */
type Dialog = { kind: "form"; group: Group | null } | { kind: "members"; group: Group } | null;

export function GroupsPage() {
  const { data: user } = useQuery(me);
  const list = useQuery({ ...groups, enabled: user?.is_admin ?? false });
  const [dialog, setDialog] = useState<Dialog>(null);
  const columns = useMemo(() => groupColumns(setDialog), []);
  if (user && !user.is_admin) {
    return (
      <EmptyState page title="For administrators only">
        Groups are made by them.
      </EmptyState>
    );
  }
  return (
    <>
      <PageHeader title="Groups" note="Users who get the same roles in virtual clusters">
        <ExportButton list="groups" />
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setDialog({ kind: "form", group: null })}
        >
          New group
        </Button>
      </PageHeader>
      <QueryState query={list} what="list of groups">
        {(data) =>
          data.length === 0 ? (
            <EmptyState title="No groups yet">
              Make one, add users, and give it a role on the page of a virtual cluster.
            </EmptyState>
          ) : (
            <PageTable
              filterLabel="Filter groups"
              label="Groups"
              columns={columns}
              rows={data}
              rowId={(each) => each.name}
              minWidth={700}
            />
          )
        }
      </QueryState>
      {dialog?.kind === "form" ? (
        <GroupForm group={dialog.group} onClose={() => setDialog(null)} />
      ) : null}
      {dialog?.kind === "members" ? (
        <GroupMembers name={dialog.group.name} onClose={() => setDialog(null)} />
      ) : null}
    </>
  );
}

function groupColumns(onOpen: (dialog: Dialog) => void): Column<Group>[] {
  return [
    {
      id: "name",
      header: "Group",
      width: "minmax(100px, 1fr)",
      cell: (group) => <b className={css.strong}>{group.name}</b>,
      sortValue: (group) => group.name,
    },
    {
      id: "members",
      header: "Users",
      width: "110px",
      cell: (group) => (
        <Button
          size="compact-sm"
          variant="subtle"
          ml={-9}
          aria-label={`${pluralize(group.members, "user")} of ${group.name}`}
          onClick={() => onOpen({ kind: "members", group })}
        >
          {pluralize(group.members, "user")}
        </Button>
      ),
      sortValue: (group) => group.members,
    },
    {
      id: "external",
      header: "Follows",
      width: "minmax(100px, 1fr)",
      optional: "phone",
      cell: (group) => group.external_name || <span className="dim">–</span>,
      sortValue: (group) => group.external_name,
    },
    {
      id: "description",
      header: "Description",
      width: "minmax(140px, 2fr)",
      optional: "phone",
      cell: (group) => group.description || <span className="dim">–</span>,
      sortValue: (group) => group.description,
    },
    {
      id: "actions",
      header: "Change",
      hiddenHeader: true,
      width: "70px",
      align: "end",
      cell: (group) => (
        <GroupActions group={group} onEdit={() => onOpen({ kind: "form", group })} />
      ),
    },
  ];
}

function GroupActions({ group, onEdit }: { group: Group; onEdit: () => void }) {
  const queries = useQueryClient();
  const deletion = useMutation({
    mutationFn: () => deleteGroup(group.name),
    onError: (error) => notifyError(error, "The group was not deleted"),
    onSettled: () => queries.invalidateQueries({ queryKey: groups.queryKey }),
  });
  return (
    <span className={css.actions}>
      <ActionIcon size="sm" aria-label={`Edit ${group.name}`} onClick={onEdit}>
        <Icon name="edit" size={14} />
      </ActionIcon>
      <DeleteIcon
        size="sm"
        label={`Delete ${group.name}`}
        question={`Delete the group ${group.name}?`}
        explanation="Its users lose the roles that they have only through it, and their jobs there are stopped."
        verb="Delete"
        onConfirm={() => deletion.mutate()}
      />
    </span>
  );
}

/** A new group, or the change of one. */
function GroupForm({ group, onClose }: { group: Group | null; onClose: () => void }) {
  const queries = useQueryClient();
  const [draft, setDraft] = useState<Required<GroupBody>>({
    name: group?.name ?? "",
    description: group?.description ?? "",
    external_name: group?.external_name ?? "",
  });
  const saving = useMutation({
    mutationFn: () => (group ? updateGroup(group.name, draft) : createGroup(draft)),
    onSuccess: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: groups.queryKey });
    },
  });
  const fields = isApiError(saving.error) ? saving.error.fields : {};
  const text = (field: keyof GroupBody) => ({
    value: draft[field],
    error: fields[field],
    onChange: (event: React.ChangeEvent<HTMLInputElement>) =>
      setDraft({ ...draft, [field]: event.currentTarget.value }),
  });
  return (
    <FormDialog
      open
      title={group ? `Group ${group.name}` : "New group"}
      verb={group ? "Save" : "Create"}
      mutation={saving}
      onClose={onClose}
    >
      <TextInput label="Name" required withAsterisk={false} data-autofocus {...text("name")} />
      <TextInput label="Description" {...text("description")} />
      <TextInput
        label="Group of the identity provider"
        description="Its users join at login, and leave when the provider no longer names them"
        {...text("external_name")}
      />
    </FormDialog>
  );
}

function GroupMembers({ name, onClose }: { name: string; onClose: () => void }) {
  const queries = useQueryClient();
  const list = useQuery(groupMembers(name));
  const everybody = useQuery(users);
  const options = {
    onError: (error: unknown) => notifyError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: groups.queryKey }),
  };
  const add = useMutation({ mutationFn: (who: string) => addGroupMember(name, who), ...options });
  const remove = useMutation({
    mutationFn: (who: string) => removeGroupMember(name, who),
    ...options,
  });
  const present = new Set(list.data?.map((member) => member.username));
  return (
    <Dialog opened onClose={onClose} title={`Users of ${name}`}>
      <Select
        aria-label="Add a user"
        placeholder="Add a user"
        data={(everybody.data ?? [])
          .map((user) => user.username)
          .filter((each) => !present.has(each))}
        error={unreadText(everybody, "list of users")}
        value={null}
        onChange={(username) => username && add.mutate(username)}
        searchable
        limit={50}
        nothingFoundMessage="No such user"
        mb={10}
      />
      <QueryState query={list} what="users of the group">
        {(data) =>
          data.length === 0 ? (
            <p className="dim">No users yet.</p>
          ) : (
            <ul className={css.people}>
              {data.map((member) => (
                <li key={member.username}>
                  <span>
                    {member.username}
                    {member.external ? (
                      <span className="dim"> by the identity provider</span>
                    ) : null}
                  </span>
                  <DeleteIcon
                    size="sm"
                    label={`Remove ${member.username} from ${name}`}
                    question={`Remove ${member.username} from ${name}?`}
                    explanation="Jobs of the user are stopped where the user has no other role."
                    verb="Remove"
                    onConfirm={() => remove.mutate(member.username)}
                  />
                </li>
              ))}
            </ul>
          )
        }
      </QueryState>
    </Dialog>
  );
}
