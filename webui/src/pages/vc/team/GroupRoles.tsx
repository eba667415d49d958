import { ActionIcon, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { groupRoles, groups, removeGroupRole, setGroupRole } from "@/api/groups";
import type { GroupRole, MemberRole } from "@/api/types";
import { virtualClusters } from "@/api/virtualClusters";
import { Confirm } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { QueryState } from "@/ui/QueryState";
import { notifyError } from "@/ui/notify";
import { unreadText } from "@/ui/ReadNote";
import { AddByName } from "./AddByName";
import css from "./MembersTab.module.css";

interface Props {
  vc: string;
  admin: boolean;
  /** VC admins, and admins. */
  manages: boolean;
}

/** A role to have, or null for none. */
interface Change {
  group: string;
  role: MemberRole | null;
}

/** The groups whose users have a role in a virtual cluster. */
export function GroupRoles({ vc, admin, manages }: Props) {
  const queries = useQueryClient();
  const list = useQuery(groupRoles(vc));
  const change = useMutation({
    mutationFn: async ({ group, role }: Change) => {
      if (role) await setGroupRole(vc, group, role, false);
      else await removeGroupRole(vc, group, false);
    },
    onError: (error) => notifyError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: virtualClusters.queryKey }),
  });
  return (
    <QueryState query={list} what="list of groups">
      {(data) => (
        <>
          {data.length === 0 ? <p className="dim">No groups.</p> : null}
          <ul>
            {data.map((row) => (
              <Row key={row.group} row={row} manages={manages} onChange={change.mutate} />
            ))}
          </ul>
          {manages ? (
            <AddGroup
              present={data}
              admin={admin}
              onAdd={(group) => change.mutate({ group, role: "member" })}
            />
          ) : null}
        </>
      )}
    </QueryState>
  );
}

interface RowProps {
  row: GroupRole;
  manages: boolean;
  onChange: (change: Change) => void;
}

function Row({ row: { group, role }, manages, onChange }: RowProps) {
  const [asking, setAsking] = useState(false);
  if (!manages) {
    return (
      <li className={css.row}>
        {group} <span className="dim">{role}</span>
      </li>
    );
  }
  return (
    <li className={css.row}>
      <span className={css.who}>{group}</span>
      <Select
        aria-label={`Role of the group ${group}`}
        data={["viewer", "member", "admin"]}
        value={role}
        onChange={(next) => next && next !== role && onChange({ group, role: next as MemberRole })}
        allowDeselect={false}
        w={112}
      />
      <ActionIcon aria-label={`Take the group ${group} out`} onClick={() => setAsking(true)}>
        <Icon name="cross" size={14} />
      </ActionIcon>
      <Confirm
        open={asking}
        question={`Take the group ${group} out?`}
        explanation="Jobs of its users who have no other role in this virtual cluster are stopped."
        verb="Take out"
        onConfirm={() => onChange({ group, role: null })}
        onClose={() => setAsking(false)}
      />
    </li>
  );
}

interface AddProps {
  present: GroupRole[];
  admin: boolean;
  onAdd: (group: string) => void;
}

function AddGroup({ present, admin, onAdd }: AddProps) {
  const query = useQuery({ ...groups, enabled: admin });
  const { data: known = [] } = query;
  const names = new Set(present.map((row) => row.group));
  const free = known.map((group) => group.name).filter((each) => !names.has(each));
  return (
    <AddByName
      what="group"
      label="Name of a group"
      placeholder="Group"
      verb="Add group"
      choices={admin ? free : undefined}
      unread={unreadText(query, "list of groups")}
      onAdd={onAdd}
    />
  );
}
