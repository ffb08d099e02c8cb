import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

/**
 * Save what users choose when they choose it.
 *
 * @param save - Stores a choice at the service.
 * @param reload - Called when the service has stored or refused it; ends when the screen knows what is stored.
 * @returns `chosen` is shown instead of what is stored, from the moment of the choice until the reload has ended.
 */
export function useChoice<T>(save: (choice: T) => Promise<unknown>, reload: () => Promise<unknown>) {
  const [chosen, setChosen] = useState<T | null>(null);
  const change = useMutation({
    mutationFn: save,
    onSettled: async () => {
      await reload();
      setChosen(null);
    },
  });
  const choose = (choice: T) => {
    // A mutation reports its start too late: until then, the field would show its former value again.
    setChosen(choice);
    change.mutate(choice);
  };
  return { chosen, change, choose };
}
