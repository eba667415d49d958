import { ActionIcon, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { users } from "@/api/admin";
import { members, removeMember, setMember, virtualClusters } from "@/api/tenancy";
import type { Member, MemberRole } from "@/api/types";
import { Failure } from "@/ui/Blank";
import { Icon } from "@/ui/Icon";
import { tellError } from "@/ui/notify";
import { SkeletonRows } from "@/ui/Skeleton";
import css from "./Members.module.css";

export function Members({ name, admin }: { name: string; admin: boolean }) {
  const list = useQuery(members(name));
  const change = useMemberChange(name);
  if (list.isPending) return <SkeletonRows rows={3} />;
  if (!list.data) return <Failure error={list.error} what="list of members" />;
  return (
    <>
      {list.data.length === 0 ? <p className="dim">Nobody yet.</p> : null}
      <ul>
        {list.data.map((member) => (
          <Row key={member.username} member={member} admin={admin} onChange={change.mutate} />
        ))}
      </ul>
      {admin ? (
        <AddMember
          present={list.data}
          onAdd={(username) => change.mutate({ username, role: "member" })}
        />
      ) : null}
    </>
  );
}

/** A role to have, or null to leave. */
interface Change {
  username: string;
  role: MemberRole | null;
}

function useMemberChange(name: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ username, role }: Change) => {
      if (role) await setMember(name, username, role);
      else await removeMember(name, username);
    },
    onError: (error) => tellError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: virtualClusters.queryKey }),
  });
}

interface RowProps {
  member: Member;
  admin: boolean;
  onChange: (change: Change) => void;
}

function Row({ member, admin, onChange }: RowProps) {
  const { username, role } = member;
  if (!admin) {
    return (
      <li className={css.row}>
        {username} <span className="dim">{role}</span>
      </li>
    );
  }
  return (
    <li className={css.row}>
      <span className={css.who}>{username}</span>
      <Select
        aria-label={`Role of ${username}`}
        data={["member", "manager"]}
        value={role}
        onChange={(next) => next && onChange({ username, role: next as MemberRole })}
        allowDeselect={false}
        w={112}
      />
      <ActionIcon
        aria-label={`Take ${username} out`}
        onClick={() => onChange({ username, role: null })}
      >
        <Icon name="cross" size={14} />
      </ActionIcon>
    </li>
  );
}

function AddMember({ present, onAdd }: { present: Member[]; onAdd: (username: string) => void }) {
  const { data: everybody } = useQuery(users);
  const names = new Set(present.map((member) => member.username));
  return (
    <Select
      aria-label="Add a member"
      placeholder="Add a member"
      data={(everybody ?? []).map((user) => user.username).filter((name) => !names.has(name))}
      value={null}
      onChange={(username) => username && onAdd(username)}
      searchable
      nothingFoundMessage="No such user"
      mt={10}
    />
  );
}
