import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useRef } from "react";
import { errorMessage } from "@/api/errors";
import { uploadArchive } from "@/api/jobs";
import type { Archive } from "@/api/types";
import { CopyableCode } from "@/ui/CopyableCode";
import { formatBytes, pluralize } from "@/format/numbers";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import { useFileDrop } from "@/ui/useFileDrop";
import { chosenFiles, droppedFiles } from "./collectFiles";
import { tarGz, type FileEntry } from "./tar";
import { withFiles } from "../jobFileText";
import css from "./WorkingFiles.module.css";

// React's types do not know it.
const WHOLE_FOLDER = { webkitdirectory: "" };

interface Props {
  text: string;
  onText: (text: string) => void;
}

/** Uploads a folder, or an archive of one, that the job starts with. */
export function WorkingFiles({ text, onText }: Props) {
  const folder = useRef<HTMLInputElement>(null);
  const sending = useMutation({
    mutationFn: async (what: Promise<FileEntry[]> | File) => uploadArchive(await toArchive(what)),
    onSuccess: ({ sha256 }) => {
      const next = withFiles(text, sha256);
      if (next) onText(next);
    },
  });

  const drop = useFileDrop(({ files: [file], items }) =>
    sending.mutate(file && isArchive(file) ? file : droppedFiles(items)),
  );

  return (
    <Section title="Working files">
      <div className={css.drop} {...drop}>
        <span className="dim">Drop a folder or a .tar.gz: the job starts with it.</span>
        <Button
          variant="default"
          loading={sending.isPending}
          leftSection={<Icon name="folder" size={14} />}
          onClick={() => folder.current?.click()}
        >
          Choose a folder
        </Button>
        <input
          ref={folder}
          type="file"
          aria-label="Folder of working files"
          hidden
          {...WHOLE_FOLDER}
          onChange={({ currentTarget }) => {
            const { files } = currentTarget;
            if (files?.length) sending.mutate(Promise.resolve(chosenFiles(files)));
            currentTarget.value = "";
          }}
        />
      </div>
      {sending.error ? (
        <p className={css.bad} role="alert">
          {errorMessage(sending.error)}
        </p>
      ) : null}
      {sending.data ? <UploadedArchive archive={sending.data} text={text} /> : null}
    </Section>
  );
}

function UploadedArchive({ archive, text }: { archive: Archive; text: string }) {
  const { sha256, files, unpacked_size } = archive;
  return (
    <div className={css.done} role="status">
      <p>
        {pluralize(files, "file")}, {formatBytes(unpacked_size)} unpacked.
      </p>
      {text.includes(sha256) ? null : (
        <>
          <p className="dim">Put this below extras.skep of the job file:</p>
          <CopyableCode
            label="Line of the job file"
            text={`workingFiles: {archive: "sha256:${sha256}", path: /workspace}`}
          />
        </>
      )}
    </div>
  );
}

async function toArchive(what: Promise<FileEntry[]> | File): Promise<Blob> {
  if (what instanceof File) return what;
  const members = await what;
  if (members.length === 0) throw new Error("There is no file in it.");
  return tarGz(members);
}

function isArchive({ name }: File): boolean {
  return /\.(?:tar\.gz|tgz)$/i.test(name);
}
