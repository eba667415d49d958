import { ActionIcon, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { users } from "@/api/admin";
import { members, removeMember, setMember, virtualClusters } from "@/api/virtualClusters";
import type { Member, MemberRole } from "@/api/types";
import { ErrorState } from "@/ui/EmptyState";
import { Confirm } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { notifyError } from "@/ui/notify";
import { SkeletonRows } from "@/ui/Skeleton";
import { ListExport } from "@/ui/table/TableExport";
import { unreadText } from "@/ui/ReadNote";
import { AddByName } from "./AddByName";
import { GroupRoles } from "./GroupRoles";
import { ServiceAccounts } from "./ServiceAccounts";
import css from "./MembersTab.module.css";

interface Props {
  name: string;
  admin: boolean;
  /** VC admins, and admins. */
  manages: boolean;
}

export function MembersTab({ name, admin, manages }: Props) {
  const list = useQuery(members(name));
  const change = useMemberChange(name);
  if (list.isPending) return <SkeletonRows rows={3} />;
  if (!list.data) return <ErrorState error={list.error} what="list of members" />;
  const vcAdmins = list.data.filter((member) => member.role === "admin").length;
  return (
    <>
      {list.data.length === 0 ? <p className="dim">No members yet.</p> : null}
      <ul>
        {list.data.map((member) => (
          <Row
            key={member.username}
            member={member}
            manages={manages}
            onChange={change.mutate}
            isLast={member.role === "admin" && vcAdmins === 1}
          />
        ))}
      </ul>
      <ListExport list={`virtual-clusters/${name}/members`} label="Members" />
      {manages ? (
        <AddMember
          present={list.data}
          admin={admin}
          onAdd={(username) => change.mutate({ username, role: "member" })}
        />
      ) : null}
      <h2 className={css.groups}>Groups</h2>
      <GroupRoles vc={name} admin={admin} manages={manages} />
      {manages ? (
        <>
          <h2 className={css.groups}>Service accounts</h2>
          <ServiceAccounts vc={name} />
        </>
      ) : null}
    </>
  );
}

/** A role to have, or null to leave. `confirm`: also where no VC admin would be left. */
interface Change {
  username: string;
  role: MemberRole | null;
  confirm?: boolean;
}

function useMemberChange(name: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ username, role, confirm = false }: Change) => {
      if (role) await setMember(name, username, role, confirm);
      else await removeMember(name, username, confirm);
    },
    onError: (error) => notifyError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: virtualClusters.queryKey }),
  });
}

interface RowProps {
  member: Member;
  manages: boolean;
  /** Without this one only admins would manage the virtual cluster. */
  isLast: boolean;
  onChange: (change: Change) => void;
}

function Row({ member, manages, isLast, onChange }: RowProps) {
  const { username, role } = member;
  const [asked, setAsked] = useState<Change | null>(null);
  if (!manages) {
    return (
      <li className={css.row}>
        {username} <span className="dim">{role}</span> <ByGroups member={member} />
      </li>
    );
  }
  function change(next: MemberRole | null) {
    if (next === null || isLast) setAsked({ username, role: next, confirm: isLast });
    else onChange({ username, role: next });
  }
  return (
    <li className={css.row}>
      <span className={css.who}>
        {username}
        <ByGroups member={member} />
      </span>
      <Select
        aria-label={`Role of ${username}`}
        data={["viewer", "member", "admin"]}
        value={role}
        onChange={(next) => next && next !== role && change(next as MemberRole)}
        allowDeselect={false}
        w={112}
      />
      <ActionIcon aria-label={`Take ${username} out`} onClick={() => change(null)}>
        <Icon name="cross" size={14} />
      </ActionIcon>
      <Confirm
        open={asked !== null}
        question={asked?.role ? `Make ${username} a ${asked.role}?` : `Take ${username} out?`}
        explanation={
          <>
            {asked?.role ? null : <p>Jobs of {username} in this virtual cluster are stopped.</p>}
            {isLast ? <p>It is the last VC admin: only admins would manage it then.</p> : null}
          </>
        }
        verb={asked?.role ? `Make a ${asked.role}` : "Take out"}
        onConfirm={() => asked && onChange(asked)}
        onClose={() => setAsked(null)}
      />
    </li>
  );
}

/** Where a role comes from that was not given to the user alone. */
function ByGroups({ member: { groups } }: { member: Member }) {
  return groups.length > 0 ? <span className="dim"> by {groups.join(", ")}</span> : null;
}

function AddMember({ present, admin, onAdd }: AddProps) {
  const query = useQuery({ ...users, enabled: admin });
  const { data: everybody = [] } = query;
  const names = new Set(present.map((member) => member.username));
  const free = everybody.map((user) => user.username).filter((each) => !names.has(each));
  return (
    <AddByName
      what="member"
      label="User name of a new member"
      placeholder="User name"
      verb="Add"
      choices={admin ? free : undefined}
      unread={unreadText(query, "list of users")}
      onAdd={onAdd}
    />
  );
}

interface AddProps {
  present: Member[];
  admin: boolean;
  onAdd: (username: string) => void;
}
