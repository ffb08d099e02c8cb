import { useMutation, useQueryClient } from "@tanstack/react-query";

/** Send the changes of a form, if there are any, read everything of the organisation again, and close the form. */
export function useSaving<T extends object>(
  organizationId: string,
  send: (changes: T) => Promise<unknown>,
  onClose: () => void,
) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: async (changes: T) => {
      if (Object.keys(changes).length > 0) await send(changes);
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: [organizationId] });
      onClose();
    },
  });
}
