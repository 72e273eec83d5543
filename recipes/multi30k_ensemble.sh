#!/bin/sh
# Three seeds of one preset on Multi30k, English to German, their ensemble, and settings of the search for the first of them.
# The scores are in docs/results.md.
#
#   recipes/multi30k_ensemble.sh DIR [OPTION …]
#
# DIR has the files of github.com/multi30k/dataset: train.en, train.de, val.en, …. Each OPTION is added to every training, such
# as trainer=gpu. An interrupted recipe continues with the same command: finished runs and scores are kept. Environment:
#
#   EXPERIMENT  multi30k_en_de or multi30k_en_de_rnn (multi30k_en_de)
#   OUT         folder of the runs and the scores (runs/EXPERIMENT)
#   SEEDS       seeds of the runs (1 2 3)
#   HEED        command that starts heed (heed)
set -eu
[ $# -gt 0 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p;}' "$0"; exit 2; }
. "$(dirname "$0")/common.sh"
experiment=${EXPERIMENT:-multi30k_en_de}
out=${OUT:-runs/$experiment}

for seed in $seeds; do
    train "$out/seed-$seed" experiment="$experiment" "data.root='$dir'" seed="$seed" "$@"
done

set --
for seed in $seeds; do
    set -- "$@" --model "$out/seed-$seed"
done
for name in test_2016_flickr val; do
    evaluate "$out/ensemble-$name.txt" "$@" --src "$dir/$name.en" --ref "$dir/$name.de"
    evaluate "$out/ensemble-$name.lowercase.txt" "$@" --src "$dir/$name.en" --ref "$dir/$name.de" --lowercase
done

first="$out/seed-${seeds%% *}"
set -- --model "$first" --src "$dir/val.en" --ref "$dir/val.de"
for penalty in 0.6 1.0 1.4; do
    evaluate "$out/length-penalty-$penalty.txt" "$@" --length-penalty $penalty
done
evaluate "$out/beam-10.txt" "$@" --beam 10
evaluate "$out/mbr.txt" "$@" --mbr --utility bleu --samples 32
